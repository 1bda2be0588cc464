"""Roster: who is where. Moves requests between queue, slots and the end, and keeps ledger, columns and maps in step.

Every way out of a slot (end of text, length, abort, retraction, error) passes `_vacate`, and only when no step in
flight touches the slot any more.
"""

import numpy as np

from banyan.memory.ledger.cache import PrefixCache
from banyan.memory.ledger.slots import SlotAllocator
from banyan.plan import Admission
from banyan.sched.columns import Columns
from banyan.sched.limits import Limits
from banyan.sched.policy import queue_key
from banyan.sched.queue import WaitingQueue
from banyan.sched.req import Phase, Req
from banyan.sched.sessions import Sessions
from banyan.wire.base import I32
from banyan.wire.output import FinishReason
from banyan.wire.request import TokenizedGenerateReqInput


class Roster:
    """All requests of one scheduler, by phase."""

    def __init__(self, limits: Limits, cache: PrefixCache) -> None:
        self.limits = limits
        self.cache = cache
        self.columns = Columns(limits.num_slots, limits.context_length)
        self.slots = SlotAllocator(limits.num_slots)
        self.queue = WaitingQueue()
        self.sessions = Sessions(cache)
        self.requests: dict[int, Req] = {}  # uid -> the newest incarnation that has not ended
        self.by_slot: list[Req | None] = [None] * (limits.num_slots + 1)
        self.prefilling: dict[int, Req] = {}  # slot -> request, oldest admission first
        self.running: dict[int, Req] = {}  # likewise; the decode batch
        self.weight_version = 0
        self.step_number = 0  # number of the next step
        self.retractions = 0
        self._running_slots: I32 | None = None
        self._admissions: dict[int, Admission] = {}  # by slot: those that the device has not heard of
        self._released: list[int] = []

    # ------------------------------------------------------------------ queue

    def enqueue(self, req: Req) -> None:
        """Let a request wait for its turn."""
        self.requests[req.uid] = req
        self.columns.set_phase(req, Phase.WAITING)
        self.queue.add(req, queue_key(self.limits.policy, req, self.limits.seed))

    # ------------------------------------------------------------------ slots

    def occupy(self, req: Req) -> bool:
        """Give a waiting request a slot and the cached part of its prefix. False: no slot is free."""
        slot = self.slots.alloc()
        if slot is None:
            return False
        req.slot = slot
        namespace = req.namespace(self.weight_version)
        req.reused = self.cache.open(slot, namespace, req.tokens, req.reusable, req.ask.priority)
        return True

    def give_up(self, req: Req) -> None:
        """Undo `occupy`: there was no room after all."""
        self.cache.close(req.slot, req.tokens, 0, self.step_number)
        self.slots.free(req.slot)
        req.slot = 0

    def admit(self, req: Req, now: float) -> None:
        """Make an occupying request a prefilling one, and tell the device about it."""
        ask = req.ask
        stop_ids: tuple[int, ...] = ()
        interval = self.limits.quiet_interval
        if isinstance(ask, TokenizedGenerateReqInput):
            sampling = ask.sampling
            stop_ids = sampling.stop_token_ids + (() if sampling.ignore_eos else self.limits.eos_ids)
            # Text is searched for stop strings token by token, or the device runs on in vain.
            eager = ask.stream or sampling.stop or sampling.stop_regex
            interval = self.limits.stream_interval if eager else self.limits.quiet_interval
            if req.hidden is not None:  # a state has kilobytes: many in one message would be too long for it
                interval = 1
        if not req.retractions:
            req.admitted_at = now
            req.cached_tokens = req.reused
        if req.logprobs is not None:
            req.logprobs.restart()
        self.columns.fill(req.slot, req, stop_ids, interval)
        self.by_slot[req.slot] = req
        self._announce(req)

    def _announce(self, req: Req) -> None:
        ask = req.ask
        generate = ask if isinstance(ask, TokenizedGenerateReqInput) else None
        self._admissions[req.slot] = Admission(
            slot=req.slot,
            uid=ask.uid,
            epoch=ask.epoch,
            sampling=generate.sampling if generate else None,
            seed=generate.seed if generate else 0,
            prompt_len=req.prompt_len,
            history=req.tokens,
            logprobs=generate.logprobs if generate else None,
            hidden_states=generate.return_hidden_states if generate else False,
            lora=ask.lora,
        )

    def start_prefill(self, req: Req) -> None:
        """The request's prompt is being fed."""
        self.columns.set_phase(req, Phase.PREFILL)
        self.prefilling[req.slot] = req

    def start_decode(self, req: Req) -> None:
        """The request's prompt has been launched: it joins the decode batch."""
        self.prefilling.pop(req.slot, None)
        self.columns.set_phase(req, Phase.DECODE)
        self.running[req.slot] = req
        self._running_slots = None

    def hold(self, req: Req) -> None:
        """Keep the request in its slot, but out of every step."""
        self._leave_batches(req)
        self.columns.set_phase(req, Phase.HELD)

    def running_slots(self) -> I32:
        """List the slots of the decode batch, oldest admission first."""
        if self._running_slots is None:
            self._running_slots = np.fromiter(self.running, np.int32, len(self.running))
        return self._running_slots

    # ------------------------------------------------------------------ ways out

    def end(self, req: Req, reason: FinishReason) -> None:
        """The request is done. Its slot follows when no step in flight touches it."""
        req.reason = reason
        if self.requests.get(req.uid) is req:
            del self.requests[req.uid]
        if req.phase is Phase.WAITING:
            if req in self.queue:
                self.queue.remove(req)
            req.phase = Phase.DONE
            return
        self._leave_batches(req)
        self.columns.set_phase(req, Phase.DONE)
        self.settle(req)

    def retract(self, req: Req) -> None:
        """Take a request's memory back; it waits again and goes on where it was."""
        req.retractions += 1
        self.retractions += 1
        self._leave_batches(req)
        self.columns.set_phase(req, Phase.RETRACT)
        self.settle(req)

    def settle(self, req: Req) -> None:
        """Carry out a decided way out, if no step in flight touches the slot."""
        if not req.slot or self.columns.in_flight[req.slot]:
            return
        if req.phase is Phase.DONE:
            if isinstance(req.ask, TokenizedGenerateReqInput) and req.ask.session and self._ended_well(req):
                self._keep_session(req, req.ask.session.id)
            self._vacate(req)
        elif req.phase is Phase.RETRACT:
            self._vacate(req)
            self.enqueue(req)

    def forget_kv(self, req: Req) -> None:
        """A step failed: nothing that the request's slot holds beyond the tree can be trusted. It waits again."""
        self._leave_batches(req)
        self.columns.in_flight[req.slot] = 0
        ended = req.phase is Phase.DONE
        self._vacate(req, trusted=False)
        if not ended:
            req.retractions += 1
            self.retractions += 1
            self.enqueue(req)

    def _vacate(self, req: Req, trusted: bool = True) -> None:
        slot = req.slot
        columns = self.columns
        known = int(columns.known[slot])
        req.tokens = columns.sequence(slot, known).copy()
        req.sent = int(columns.sent[slot])
        # Steps launched after the end wrote KV of tokens that do not count: keep what is both fed and known.
        keep = min(known, int(columns.fed[slot])) if trusted else 0
        self.cache.close(slot, req.tokens, keep, self.step_number)
        self.by_slot[slot] = None
        columns.phase[slot] = Phase.WAITING
        self.slots.free(slot)
        self._admissions.pop(slot, None)  # who left before the device heard of it was never there
        self._released.append(slot)
        req.slot = 0

    def _leave_batches(self, req: Req) -> None:
        self.prefilling.pop(req.slot, None)
        if self.running.pop(req.slot, None) is not None:
            self._running_slots = None

    def _ended_well(self, req: Req) -> bool:
        return req.reason is not None and req.reason.kind in ("stop", "length")

    def _keep_session(self, req: Req, session: str) -> None:
        length = min(int(self.columns.known[req.slot]), int(self.columns.fed[req.slot]))
        tokens = self.columns.sequence(req.slot, length).copy()
        # Publish first: only what the tree holds can be pinned.
        self.cache.publish(req.slot, tokens, length, self.step_number)
        self.sessions.keep(session, req.namespace(self.weight_version), tokens)

    # ------------------------------------------------------------------ for the next step

    def take_admissions(self) -> tuple[Admission, ...]:
        """Hand over the admissions that the device has not heard of."""
        admissions = tuple(self._admissions.values())
        self._admissions.clear()
        return admissions

    def take_released(self) -> I32:
        """Hand over the slots given back since the last step."""
        released = np.asarray(self._released, np.int32)
        self._released.clear()
        return released
