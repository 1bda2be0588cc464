"""Decode: the role of a decode server. Reserve pages, await their contents, decode.

    arrive -> queued -> (room) -> held, expecting -> (arrived) -> decode
                                       `-> (lost, or the lease is over) -> queue: the prompt is computed here

So a lost prefill server costs time, never a request.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np

from banyan.disagg.links.base import Handover, Key, KVReceiver, Lost
from banyan.disagg.pair import DEFAULT_LEASE_S, Finish, key_of, travels
from banyan.sched.finish import ends, ends_by_rare_stop, reason
from banyan.sched.req import Phase, Req
from banyan.sched.roles import Unified
from banyan.sched.roster import Roster
from banyan.wire.base import I32
from banyan.wire.output import FinishReason


@dataclass(frozen=True, slots=True)
class _Expected:
    """A request whose KV is on its way."""

    req: Req
    deadline: float


class Decode:
    """Generates from KV that was computed elsewhere. What was retracted is computed here, like anywhere."""

    speaks = True

    def __init__(self, roster: Roster, link: KVReceiver, finish: Finish, lease_s: float = DEFAULT_LEASE_S) -> None:
        self._roster = roster
        self._link = link
        self._finish = finish
        self._lease_s = lease_s
        self._local = Unified(roster)  # once its KV is here, a request is like any other
        self._queued: deque[Req] = deque()
        self._expected: dict[Key, _Expected] = {}

    def arrive(self, req: Req) -> None:
        """Let it wait for room; what does not travel is computed here."""
        if not travels(req):
            self._local.arrive(req)
            return
        self._roster.requests[req.uid] = req
        self._queued.append(req)

    def poll(self, now: float) -> bool:
        """Start decoding what has arrived, and make room for what is to come."""
        for key, expected in list(self._expected.items()):
            self._follow(key, expected, now)
        while self._queued:
            req = self._queued[0]
            if req.phase is Phase.DONE:
                self._queued.popleft()
            elif now >= req.deadline:
                self._queued.popleft()
                late = FinishReason(kind="error", message="waited too long in the queue", status=503)
                self._finish(req, late, now)
            elif self._reserve(req, now):
                self._queued.popleft()
            else:
                break
        return bool(self._queued or self._expected)

    def prompt_launched(self, req: Req) -> None:
        """Decode from the next step on."""
        self._local.prompt_launched(req)

    def prompt_committed(self, req: Req) -> None:
        """Do nothing: it decodes already."""

    def gone(self, req: Req) -> None:
        """Stop the transfer into its pages, before anybody else can get them."""
        if self._expected.pop(key_of(req), None) is not None:
            self._link.cancel(key_of(req))

    def _reserve(self, req: Req, now: float) -> bool:
        """Give a request its slot and the pages of its prompt, and offer them to the prefill server."""
        roster, cache = self._roster, self._roster.cache
        if len(roster.queue) or not roster.occupy(req):
            return False  # requests that wait here have run before: they go first
        # With room for the first token: or the server could fill up with requests that all wait for one more page.
        length = min(len(req.tokens) + 1, req.length_limit - 1)
        others = len(roster.running) + len(roster.prefilling) + len(self._expected)
        need = -(-(length - req.reused) // cache.page_size)
        # Each of the others may need a page before this one's KV has come.
        if need + others > cache.available() or not cache.reserve(_column(req.slot), _column(length)):
            roster.give_up(req)
            return False
        roster.admit(req, now)
        roster.hold(req)
        key, skip, count = key_of(req), req.reused // cache.page_size, -(-len(req.tokens) // cache.page_size)
        self._expected[key] = _Expected(req, now + self._lease_s)
        self._link.expect(key, cache.table[req.slot, skip:count].copy(), skip)
        return True

    def _follow(self, key: Key, expected: _Expected, now: float) -> None:
        """Look after one request whose KV is on its way."""
        req = expected.req
        if req.phase is not Phase.HELD:  # a failed step took its memory away: it is in the queue
            self._drop(key)
            return
        outcome = self._link.arrived(key)
        if isinstance(outcome, Handover):
            del self._expected[key]
            self._begin(req, outcome, now)
        elif isinstance(outcome, Lost) or now >= expected.deadline:
            self._drop(key)
            self._roster.retract(req)

    def _begin(self, req: Req, handover: Handover, now: float) -> None:
        """Append the first token; feeding it is the request's first row here."""
        columns, slot, eos_ids = self._roster.columns, req.slot, self._roster.limits.eos_ids
        known = int(columns.known[slot])
        if handover.has_kv:
            columns.fed[slot] = known
        columns.tokens[slot, known] = handover.token
        columns.known[slot] = known + 1
        req.first_token_at = now
        req.cached_tokens = handover.cached_tokens
        if req.grammar is not None:
            req.grammar.accept(handover.token)
        done = bool(ends(columns, _column(slot), _column(handover.token))[0])
        if done or ends_by_rare_stop(req, columns, handover.token, eos_ids):
            self._finish(req, reason(columns, req, handover.token, eos_ids), now)
        else:
            self._roster.start_prefill(req)

    def _drop(self, key: Key) -> None:
        del self._expected[key]
        self._link.cancel(key)


def _column(value: int) -> I32:
    return np.asarray([value], np.int32)
