"""Prefill: the role of a prefill server. Wait until a decode server has room, prefill, send the pages, let go.

    arrive -> booting -> (wanted) -> queue, prefill -> held, sending -> (sent) -> gone

Nothing is held for a partner longer than a lease.
"""

from dataclasses import dataclass

from banyan.disagg.links.base import Handover, Key, KVSender, Progress
from banyan.disagg.pair import DEFAULT_LEASE_S, Finish, key_of, travels
from banyan.sched.req import Phase, Req
from banyan.sched.roster import Roster
from banyan.wire.output import FinishReason


@dataclass(slots=True)
class _Sending:
    """A request whose pages are being copied."""

    req: Req
    deadline: float | None = None  # known from the first poll on


class Prefill:
    """Computes prompts and their first token; says nothing to the detokenizer, for the decode server will."""

    speaks = False

    def __init__(self, roster: Roster, link: KVSender, finish: Finish, lease_s: float = DEFAULT_LEASE_S) -> None:
        self._roster = roster
        self._link = link
        self._finish = finish
        self._lease_s = lease_s
        self._booting: dict[Key, Req] = {}
        self._sending: dict[Key, _Sending] = {}

    def arrive(self, req: Req) -> None:
        """Let it wait for a decode server; what does not travel is not for us."""
        self._roster.requests[req.uid] = req
        if travels(req):
            self._booting[key_of(req)] = req
        else:
            self._end_quietly(req, req.arrived_at)

    def poll(self, now: float) -> bool:
        """Queue the requests that a decode server waits for; release those whose pages have been copied."""
        for key, req in list(self._booting.items()):
            if self._link.wanted(key):
                del self._booting[key]
                self._roster.enqueue(req)
            elif now >= min(req.deadline, req.arrived_at + self._lease_s):
                reason = FinishReason(kind="error", message="no decode server asked for the request", status=503)
                self._finish(req, reason, now)
        for key, sending in list(self._sending.items()):
            self._follow(key, sending, now)
        return bool(self._booting or self._sending)

    def prompt_launched(self, req: Req) -> None:
        """Keep it out of the decode batch: it never decodes here."""
        self._roster.hold(req)

    def prompt_committed(self, req: Req) -> None:
        """Its pages are complete and its first token is known: send both."""
        cache, columns, slot = self._roster.cache, self._roster.columns, req.slot
        last = int(columns.known[slot]) - 1
        pages = cache.table[slot, : -(-last // cache.page_size)].copy()
        key = key_of(req)
        self._link.send(key, pages, Handover(int(columns.tokens[slot, last]), req.cached_tokens))
        self._sending[key] = _Sending(req)

    def gone(self, req: Req) -> None:
        """Tell the decode server, unless it has everything: the first token was also the last, or none will come."""
        key = key_of(req)
        waited = self._booting.pop(key, None) is not None
        sending = self._sending.pop(key, None) is not None
        if req.quiet and not waited and not sending:
            return
        reason = req.reason
        if reason is not None and reason.kind in ("stop", "length") and len(req.tokens) > req.prompt_len:
            handover = Handover(int(req.tokens[-1]), req.cached_tokens, has_kv=False)
            self._link.send(key, self._roster.cache.table[0, :0], handover)
        else:
            self._link.refuse(key, reason.message if reason is not None else "")

    def _follow(self, key: Key, sending: _Sending, now: float) -> None:
        """Look after one send."""
        progress = self._link.poll(key)
        if progress is Progress.UNDER_WAY and sending.req.phase is not Phase.HELD:
            # A failed step took its memory away. It is in the queue again, and will be sent again.
            self._link.cancel(key)
            del self._sending[key]
            return
        if sending.deadline is None:
            sending.deadline = now + self._lease_s
        if progress is Progress.UNDER_WAY and now < sending.deadline:
            return
        del self._sending[key]
        if progress is Progress.UNDER_WAY:
            self._link.refuse(key, "the transfer took too long")
        self._end_quietly(sending.req, now)

    def _end_quietly(self, req: Req, now: float) -> None:
        req.quiet = True
        self._finish(req, FinishReason(kind="length"), now)
