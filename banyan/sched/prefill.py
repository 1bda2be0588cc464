"""PrefillAdder: which prompt tokens go into a step: chunks of prompts under way first, then requests from the queue."""

from dataclasses import dataclass, field

import numpy as np

from banyan.plan import Step
from banyan.sched.budget import NewTokenRatio
from banyan.sched.isolation import Isolation
from banyan.sched.policy import WINDOW, cache_aware_order, is_cache_aware
from banyan.sched.req import Req
from banyan.sched.roles import Role
from banyan.sched.roster import Roster
from banyan.wire.base import I32, Bool


@dataclass(slots=True)
class ExtendRows:
    """The prefill rows of a step, as they are collected."""

    reqs: list[Req] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    samples: list[bool] = field(default_factory=list)
    chunks: list[I32] = field(default_factory=list)

    def add(self, req: Req, start: int, chunk: I32, samples: bool) -> None:
        """Append a row."""
        self.reqs.append(req)
        self.starts.append(start)
        self.lengths.append(len(chunk))
        self.samples.append(samples)
        self.chunks.append(chunk)

    def slots(self) -> I32:
        """List the rows' slots."""
        return np.asarray([req.slot for req in self.reqs], np.int32)

    def tokens(self) -> I32:
        """Join the rows' tokens."""
        return np.concatenate(self.chunks) if self.chunks else Step(number=0).extend_tokens

    def samples_column(self) -> Bool:
        """List which rows sample."""
        return np.asarray(self.samples, np.bool_)


class PrefillAdder:
    """Fills what is left of a step's token budget with prompt tokens."""

    def __init__(self, roster: Roster, ratio: NewTokenRatio, isolation: Isolation) -> None:
        self._roster = roster
        self._ratio = ratio
        self._isolation = isolation
        self._blocked = (-1, 0, 0)  # who last found no room, and how things stood then

    def plan(self, budget: int, role: Role, now: float) -> ExtendRows:
        """Choose the prefill rows of the next step and take the pages they need."""
        rows = ExtendRows()
        for req in list(self._roster.prefilling.values()):
            if budget <= 0:
                return rows
            budget -= self._feed(req, budget, rows, role)
        if budget > 0 and len(self._roster.queue) and self._roster.slots.num_free:
            self._admit(budget, rows, role, now)
        return rows

    def _admit(self, budget: int, rows: ExtendRows, role: Role, now: float) -> None:
        if self._still_blocked():
            return
        reserved = self._reserved_tokens()
        for req in self._candidates(now):
            if budget <= 0 or not self._roster.slots.num_free:
                return
            if self._isolation.holds_back(req.uid) or self._twin_is_ahead(req):
                continue
            if not self._roster.occupy(req):
                return
            want = self._wanted_tokens(req)
            if not self._fits(req, reserved):
                self._roster.give_up(req)
                self._blocked = (req.uid, self._roster.cache.available(), len(self._roster.running))
                return  # nobody overtakes a request that waits for memory
            reserved += want
            self._roster.queue.remove(req)
            self._roster.admit(req, now)
            self._roster.start_prefill(req)
            budget -= self._feed(req, budget, rows, role)

    def _still_blocked(self) -> bool:
        """Tell whether the head of the queue found no room before and nothing has changed: trying costs a tree walk."""
        uid, available, running = self._blocked
        roster = self._roster
        return (
            uid == roster.queue.head(1)[0].uid
            and roster.cache.available() <= available
            and len(roster.running) >= running > 0
        )

    def _candidates(self, now: float) -> list[Req]:
        roster = self._roster
        policy = roster.limits.policy
        # A step admits no more than it has slots and tokens for; looking further costs time for nothing.
        # But while some are held back, the only one that may enter can be anywhere.
        count = len(roster.queue) if self._isolation.active else roster.slots.num_free + WINDOW
        if not is_cache_aware(policy):
            return roster.queue.head(count)
        version = roster.weight_version
        window = roster.queue.head(WINDOW)
        return (
            cache_aware_order(policy, window, lambda req: roster.cache.peek(req.namespace(version), req.tokens), now)
            + roster.queue.head(count)[WINDOW:]
        )

    def _feed(self, req: Req, budget: int, rows: ExtendRows, role: Role) -> int:
        """Add the next chunk of a prompt. Returns the tokens taken from the budget."""
        roster = self._roster
        columns, cache, slot = roster.columns, roster.cache, req.slot
        start, total = int(columns.fed[slot]), int(columns.known[slot])
        length = min(budget, total - start)
        if roster.limits.whole_prompts and length < total:
            if rows.reqs:
                return 0
            length = total  # alone in its step, it may be longer than the budget
        last = start + length == total
        if not last and length > cache.page_size:  # whole pages can be shared at once
            length -= (start + length) % cache.page_size
        if not self._take_pages(slot, start + length):
            return 0
        samples = last and total < int(columns.limit[slot])
        rows.add(req, start, columns.tokens[slot, start : start + length].copy(), samples)
        columns.fed[slot] = start + length
        columns.in_flight[slot] += 1
        cache.publish(slot, columns.sequence(slot, total), start + length, roster.step_number)
        if last:
            roster.prefilling.pop(slot)
            role.prompt_launched(req)
        return length

    def _take_pages(self, slot: int, length: int) -> bool:
        """Give a slot pages for a length. Prefixes of idle sessions go before a prompt stands still."""
        roster = self._roster
        slots, lengths = np.asarray([slot], np.int32), np.asarray([length], np.int32)
        while not roster.cache.reserve(slots, lengths):
            if not roster.sessions.release_oldest():
                return False
        return True

    def _twin_is_ahead(self, req: Req) -> bool:
        """Tell whether a prompt under way will soon publish more of this request's prefix than is cached now.

        Its pages are shared as they are launched, so waiting a step or two saves computing them again."""
        roster = self._roster
        for other in roster.prefilling.values():
            if other.ask.salt != req.ask.salt or other.ask.lora != req.ask.lora:
                continue
            fed = int(roster.columns.fed[other.slot])
            size = min(len(other.tokens), req.reusable)
            if size - fed >= roster.cache.page_size and np.array_equal(
                other.tokens[: fed + roster.cache.page_size], req.tokens[: fed + roster.cache.page_size]
            ):
                return True
        return False

    # ------------------------------------------------------------------ room

    def _reserved_tokens(self) -> int:
        """Tokens that requests with a slot are expected to still write."""
        roster, columns = self._roster, self._roster.columns
        slots = roster.running_slots()
        reserved = self._ratio.reserve_tokens(columns.limit[slots] - columns.fed[slots], columns.certain[slots])
        for req in roster.prefilling.values():
            reserved += int(columns.known[req.slot] - columns.fed[req.slot]) + self._expected_output(req)
        return reserved

    def _expected_output(self, req: Req) -> int:
        remaining = np.asarray([req.length_limit - len(req.tokens)], np.int32)
        return self._ratio.reserve_tokens(remaining, np.asarray([req.retractions >= 2]))

    def _wanted_tokens(self, req: Req) -> int:
        return len(req.tokens) - req.reused + self._expected_output(req)

    def _fits(self, req: Req, reserved: int) -> bool:
        """Tell whether memory holds this request beside those that run. `occupy` has locked its cached prefix already,
        so what `available` counts can really be had."""
        roster = self._roster
        page_size = roster.cache.page_size
        alone = not roster.running and not roster.prefilling
        if alone:  # nothing else will give memory back: what it has and one token more must do
            length = max(len(req.tokens), min(len(req.tokens) + 1, req.length_limit - 1))  # its last token is never fed
            pages = -(-(length - req.reused) // page_size)
            while pages > roster.cache.available() and roster.sessions.release_oldest():
                pass
            return pages <= roster.cache.available()
        # One page more a request: the last page of each is rarely full.
        slack = len(roster.running) + len(roster.prefilling) + 1
        pages = -(-(self._wanted_tokens(req) + reserved) // page_size) + slack
        return pages <= roster.cache.available()
