"""Invariants of a scheduler: every page has exactly one owner, every request is in exactly one place, none is lost."""

import numpy as np

from banyan.sched.req import Phase
from banyan.sched.scheduler import Scheduler


def findings(scheduler: Scheduler) -> list[str]:
    """Say in words what is wrong. An empty list is a clean bill."""
    return [*scheduler.cache.check(), *_requests(scheduler), *_slots(scheduler)]


def _requests(scheduler: Scheduler) -> list[str]:
    roster = scheduler.roster
    found = []
    for uid, req in roster.requests.items():
        in_queue = req in roster.queue
        if req.phase is Phase.DONE:
            found.append(f"request {uid} has ended but is still listed")
        elif req.slot and roster.by_slot[req.slot] is not req:
            found.append(f"request {uid} believes to be in slot {req.slot}, which is another's")
        elif req.slot and in_queue:
            found.append(f"request {uid} is in slot {req.slot} and in the queue")
    found += [f"request {r.uid} waits but is not listed" for r in roster.queue if roster.requests.get(r.uid) is not r]
    return found


def _slots(scheduler: Scheduler) -> list[str]:
    roster, columns = scheduler.roster, scheduler.roster.columns
    taken = [slot for slot, req in enumerate(roster.by_slot) if req is not None]
    found = []
    if len(taken) + roster.slots.num_free != scheduler.limits.num_slots:
        found.append(f"{len(taken)} slots taken, {roster.slots.num_free} free, {scheduler.limits.num_slots} in all")
    for slot in taken:
        req = roster.by_slot[slot]
        if req is None or req.slot != slot or columns.phase[slot] != req.phase or columns.uid[slot] != req.uid:
            found.append(f"slot {slot} and its request disagree")
        elif req.phase in (Phase.DONE, Phase.RETRACT) and columns.in_flight[slot] == 0:
            found.append(f"slot {slot} is held by a request that has left it")
    if (columns.in_flight < 0).any():
        found.append(f"steps in flight below zero in slots {np.flatnonzero(columns.in_flight < 0).tolist()}")
    return found
