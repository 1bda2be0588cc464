"""DecodePlanner: the decode rows of a step, all columns at once; who is retracted when pages run out."""

import math

import numpy as np

from banyan.sched.budget import NewTokenRatio
from banyan.sched.req import Phase, Req
from banyan.sched.roster import Roster
from banyan.wire.base import I32
from banyan.wire.output import FinishReason

_NO_ROWS: I32 = np.zeros(0, np.int32)


class DecodePlanner:
    """Every running request gets its next token, unless its page cannot be had."""

    def __init__(self, roster: Roster, ratio: NewTokenRatio) -> None:
        self._roster = roster
        self._ratio = ratio
        self.starved = False  # rows wait for memory: nobody else may take it first
        self.failed: list[Req] = []  # ended here for want of memory; the scheduler tells their fronts

    def plan(self) -> tuple[I32, I32]:
        """Choose the decode rows and take their pages. Returns slots and the positions they feed."""
        roster, columns = self._roster, self._roster.columns
        slots = self._ready()
        self.starved = False
        while len(slots) and not roster.cache.reserve(slots, columns.fed[slots] + 1):
            if not self._make_room():
                self.starved = True
                return _NO_ROWS, _NO_ROWS  # memory comes back when steps in flight are committed
            slots = self._ready()
        if len(slots):
            self._ratio.decoded()
        positions = columns.fed[slots]
        columns.fed[slots] = positions + 1
        columns.in_flight[slots] += 1
        return slots, positions

    def _ready(self) -> I32:
        """Running requests that want a token and may have one now."""
        roster, columns = self._roster, self._roster.columns
        slots = roster.running_slots()
        ready = columns.fed[slots] + 1 < columns.limit[slots]
        if not roster.limits.chained:
            ready &= columns.in_flight[slots] == 0
        slots = slots[ready]
        if not roster.limits.chained:  # lanes emerge: each step takes its share of the batch
            slots = slots[: math.ceil(len(roster.running) / roster.limits.depth)]
        return slots

    def _make_room(self) -> bool:
        """Retract the youngest request of the lowest priority. False: memory can come only from a commit."""
        roster = self._roster
        if roster.sessions.release_oldest():
            return True
        holders = [*roster.running.values(), *roster.prefilling.values()]
        leaving = any(roster.columns.in_flight[s] for s in self._draining())
        if leaving or not holders:
            return False  # somebody's pages are on their way back already
        if len(holders) == 1:
            return self._give_up_on(holders[0])
        victim = min(holders, key=lambda r: (r.ask.priority, -r.number))
        self._note(holders)
        roster.retract(victim)
        return victim.slot == 0

    def force_retraction(self) -> None:
        """Retract somebody without need (debugging)."""
        if len(self._roster.running) > 1:
            self._roster.retract(max(self._roster.running.values(), key=lambda r: r.number))

    def _draining(self) -> list[int]:
        phases = self._roster.columns.phase
        return np.flatnonzero((phases == Phase.DONE) | (phases == Phase.RETRACT)).tolist()

    def _give_up_on(self, req: Req) -> bool:
        """One request alone does not fit: somebody outside the batch holds the memory for good."""
        columns = self._roster.columns
        if columns.in_flight[req.slot] or (columns.phase == Phase.HELD).any():
            return False  # a role's requests go on, or give their memory back, without our help
        self._roster.end(req, FinishReason(kind="error", message="KV memory ran out for this request", status=507))
        self.failed.append(req)
        return True

    def _note(self, holders: list[Req]) -> None:
        columns = self._roster.columns
        slots = [req.slot for req in holders]
        written = int((columns.known[slots] - columns.prompt_len[slots]).sum())
        promised = int((columns.limit[slots] - columns.prompt_len[slots]).sum())
        self._ratio.retracted(written, promised)
