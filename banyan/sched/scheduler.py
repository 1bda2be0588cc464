"""Scheduler: receive, plan, commit. A pure state machine: (state, messages, results) -> steps and outputs."""

from collections.abc import Callable

import numpy as np

from banyan.memory.ledger.cache import PrefixCache
from banyan.plan import U32, Grammar, Step, StepResult
from banyan.sched.budget import NewTokenRatio
from banyan.sched.commit import Committer
from banyan.sched.decode import DecodePlanner
from banyan.sched.finish import ended_before
from banyan.sched.isolation import Isolation
from banyan.sched.limits import Limits
from banyan.sched.output import OutputPacker
from banyan.sched.prefill import PrefillAdder
from banyan.sched.req import Phase, Req
from banyan.sched.roles import Role, Unified
from banyan.sched.roster import Roster
from banyan.wire.base import I32, front_of, i32, i64
from banyan.wire.control import LoadReport, ProbeReply, ServerInfo, ToDetokenizer
from banyan.wire.output import FinishReason
from banyan.wire.request import (
    AbortAllReq,
    AbortReq,
    GrammarSpec,
    ProbeReq,
    TokenizedEmbeddingReqInput,
    TokenizedGenerateReqInput,
)

GrammarFactory = Callable[[GrammarSpec], Grammar]
Notify = Callable[[str, int], None]  # (event name, uid): for tracing


class Scheduler:
    """Owns every request of a replica. `role` may be replaced before the first message."""

    def __init__(
        self,
        limits: Limits,
        cache: PrefixCache,
        grammars: GrammarFactory | None = None,
        notify: Notify | None = None,
    ) -> None:
        self.limits = limits
        self.cache = cache
        self.roster = Roster(limits, cache)
        self.role: Role = Unified(self.roster)
        self.paused = False
        self.steps = 0
        self.leaks_healed = 0
        self._grammars = grammars
        self._notify = notify
        self._ratio = NewTokenRatio(limits.conservativeness)
        self._isolation = Isolation()
        self._prefill = PrefillAdder(self.roster, self._ratio, self._isolation)
        self._decode = DecodePlanner(self.roster, self._ratio)
        self._packer = OutputPacker(self.roster.columns, limits.replica)
        self._committer = Committer(self.roster, self._packer, limits.eos_ids)
        self._outbox: list[ToDetokenizer] = []
        self._arrivals = 0
        self._last_decode: I32 | None = None

    # ------------------------------------------------------------------ messages in

    def receive(self, ask: TokenizedGenerateReqInput | TokenizedEmbeddingReqInput, now: float) -> None:
        """Take in a request, or refuse it. A higher epoch replaces what runs under the same uid; others are echoes."""
        held = self.roster.requests.get(ask.uid)
        if held is not None:
            if held.ask.epoch >= ask.epoch:
                return
            self._drop_quietly(held)
        self._arrivals += 1
        timeout_s = ask.queue_timeout_s or self.limits.queue_timeout_s
        req = Req(ask, self._arrivals, now, now + timeout_s)
        refusal = self._refusal(req)
        if refusal is None and isinstance(ask, TokenizedGenerateReqInput) and ask.sampling.grammar is not None:
            refusal = self._attach_grammar(req, ask.sampling.grammar)
        if refusal is not None:
            self.finish(req, refusal, now)
            return
        self._trace("Scheduler.receive", req.uid)
        self.role.arrive(req)

    def abort(self, request: AbortReq, now: float) -> None:
        """End the named requests, whatever they are doing."""
        for uid, below in zip(i64(request.uids).tolist(), i32(request.below).tolist(), strict=True):
            req = self.roster.requests.get(uid)
            if req is not None and req.ask.epoch < below:
                req.quiet = req.quiet or request.quiet
                self.finish(req, FinishReason(kind="abort", message=request.reason, status=499), now)

    def abort_all(self, request: AbortAllReq, now: float) -> None:
        """End every request of one front, or all."""
        for req in list(self.roster.requests.values()):
            if request.front in (-1, front_of(req.uid)):
                self.finish(req, FinishReason(kind="abort", message=request.reason, status=499), now)

    def probe(self, request: ProbeReq) -> None:
        """Say which of these requests are here, and how far they are."""
        asked = i64(request.uids).tolist()
        held = [self.roster.requests.get(uid) for uid in asked]
        self._outbox.append(
            ProbeReply(
                front=request.front,
                replica=self.limits.replica,
                uids=request.uids,
                epochs=np.asarray([r.ask.epoch if r else -1 for r in held], np.int32).tobytes(),
                next=np.asarray([self._next_position(r) if r else 0 for r in held], np.int32).tobytes(),
            )
        )

    def reply(self, message: ToDetokenizer) -> None:
        """Send a control reply on its way."""
        self._outbox.append(message)

    def outbox(self) -> list[ToDetokenizer]:
        """Hand over what is to be sent."""
        messages, self._outbox = self._outbox, []
        return messages

    # ------------------------------------------------------------------ plan

    def plan(self, now: float) -> Step | None:
        """Decide the next step and take the memory it needs. None: nothing can run before a commit or a message."""
        roster = self.roster
        for req in roster.queue.expired(now):
            self.finish(req, FinishReason(kind="error", message="waited too long in the queue", status=503), now)
        if self.paused:
            return None
        if self.limits.retract_every and self.steps % self.limits.retract_every == self.limits.retract_every - 1:
            self._decode.force_retraction()
        slots, positions = self._decode.plan()
        for req in self._decode.failed:
            self._tell_end(req, now)
            self._gone(req)
        self._decode.failed.clear()
        if self._decode.starved:
            return None
        extend = self._prefill.plan(self.limits.token_budget - len(slots), self.role, now)
        if not len(slots) and not extend.reqs:
            return None
        for req in extend.reqs:
            self._trace("Scheduler.prefill", req.uid)
        extend_slots = extend.slots()
        page_slots, page_indices, page_ids = self.cache.changes()
        admissions, released = roster.take_admissions(), roster.take_released()
        masked, needs_history = self._masked(extend_slots, extend.samples_column(), slots)
        unchanged = not (len(extend_slots) or len(page_ids) or admissions or len(released))
        step = Step(
            number=roster.step_number,
            extend_slots=extend_slots,
            extend_starts=np.asarray(extend.starts, np.int32),
            extend_lengths=np.asarray(extend.lengths, np.int32),
            extend_tokens=extend.tokens(),
            extend_samples=extend.samples_column(),
            decode_slots=slots,
            decode_positions=positions,
            page_slots=page_slots,
            page_indices=page_indices,
            page_ids=page_ids,
            admissions=admissions,
            released=released,
            masked_rows=masked,
            needs_history=needs_history,
            steady=unchanged and self._last_decode is not None and np.array_equal(slots, self._last_decode),
        )
        self._last_decode = slots if not extend.reqs else None
        roster.step_number += 1
        self.steps += 1
        return step

    def _masked(self, extend_slots: I32, samples: np.ndarray, decode_slots: I32) -> tuple[I32, bool]:
        """Find the rows that need a grammar mask, and whether one of them waits for a token still in flight."""
        columns = self.roster.columns
        slots = np.concatenate((extend_slots, decode_slots))
        rows = [
            row
            for row in np.flatnonzero(columns.special[slots]).tolist()
            if (row >= len(samples) or samples[row])
            and (req := self.roster.by_slot[slots[row]]) is not None
            and req.grammar is not None
        ]
        behind = any(row >= len(samples) and columns.in_flight[slots[row]] > 1 for row in rows)
        return np.asarray(rows, np.int32), behind

    def masks(self, step: Step) -> U32 | None:
        """Fill the grammar masks of a step whose history is committed. A row that has ended may do anything."""
        if not len(step.masked_rows):
            return None
        words = -(-self.limits.vocab_size // 32)
        masks = np.zeros((len(step.masked_rows), words), np.uint32)
        for mask, slot in zip(masks, step.slots()[step.masked_rows].tolist(), strict=True):
            req = self.roster.by_slot[slot]
            if req is None or req.grammar is None or req.phase is Phase.DONE:
                mask[:] = 0xFFFFFFFF
            else:
                req.grammar.fill(mask)
        return masks

    # ------------------------------------------------------------------ commit

    def commit(self, step: Step, result: StepResult, now: float) -> None:
        """Apply a step's tokens: extend the sequences, end those that are done, pack the outputs."""
        self._isolation.progressed(step, self.roster)
        committed = self._committer.commit(step, result, self.role, now)
        self._outbox.extend(committed.messages)
        for req in committed.begun:
            self._trace("Scheduler.first_token", req.uid)
        for req in committed.ended:
            self._gone(req)

    def fail(self, step: Step, error: str, now: float) -> None:
        """A step raised. Neither it nor what was launched after it happened: all return to the queue, and the culprit
        is sought."""
        roster = self.roster
        suspects = {uid for slot in step.slots().tolist() if (uid := self._uid_in(slot)) is not None}
        newcomers = {a.uid for a in step.admissions}
        complete = len(suspects) == step.num_rows
        convicted = self._isolation.crashed(suspects, newcomers & suspects, complete=complete)
        for held in roster.by_slot:
            if held is not None and not self._is_done_with_device(held):
                roster.forget_kv(held)
        self.cache.invalidate(step.number)
        self._last_decode = None
        for uid in convicted:
            req = roster.requests.get(uid)
            if req is not None:
                self.finish(
                    req, FinishReason(kind="error", message=f"the request's step failed: {error}", status=500), now
                )

    def finish(self, req: Req, reason: FinishReason, now: float) -> None:
        """End a request in whatever state it is, and tell its front."""
        req.reason = reason
        if req.slot:
            self._tell_end(req, now)
            self.roster.end(req, reason)
        else:
            self.roster.end(req, reason)
            self._tell_end(req, now)
        self._gone(req)

    def _tell_end(self, req: Req, now: float) -> None:
        if req.quiet:
            return
        if req.is_embedding:
            self._outbox.append(self._packer.embeddings([req], [np.zeros(0, np.float32)], now))
        elif req.slot:
            message = self._packer.pack(np.zeros(0, np.int32), self.roster.by_slot, [req], now)
            if message is not None:
                self._outbox.append(message)
        else:
            self._outbox.append(self._packer.end_without_row(req, now))

    def _gone(self, req: Req) -> None:
        self._isolation.ended(req.uid)
        self.role.gone(req)
        self._trace("Scheduler.finish", req.uid)

    # ------------------------------------------------------------------ state

    @property
    def is_idle(self) -> bool:
        """Tell whether nobody waits and nobody runs."""
        return not self.roster.requests and all(req is None for req in self.roster.by_slot)

    def idle(self) -> None:
        """Forget what was learnt about a load that is gone."""
        self._ratio.idle()

    def info(self) -> ServerInfo:
        """Report the state."""
        usage = self.cache.usage()
        roster, totals = self.roster, self._committer.totals
        return ServerInfo(
            running=len(roster.running) + len(roster.prefilling),
            waiting=len(roster.queue),
            free_pages=usage.free,
            cached_pages=usage.cached,
            held_pages=usage.locked + usage.private,
            total_pages=self.cache.num_pages,
            page_size=self.cache.page_size,
            steps=self.steps,
            retractions=roster.retractions,
            leaks_healed=self.leaks_healed,
            sessions=len(roster.sessions),
            prompt_tokens=totals.prompt_tokens,
            cached_tokens=totals.cached_tokens,
            output_tokens=totals.output_tokens,
        )

    def load(self) -> LoadReport:
        """Report how busy this replica is."""
        roster = self.roster
        usage = self.cache.usage()
        return LoadReport(
            replica=self.limits.replica,
            running=len(roster.running) + len(roster.prefilling),
            waiting=len(roster.queue),
            waiting_tokens=roster.queue.num_tokens,
            used_tokens=(usage.locked + usage.private) * self.cache.page_size,
            total_tokens=self.cache.num_pages * self.cache.page_size,
        )

    # ------------------------------------------------------------------ parts

    def _refusal(self, req: Req) -> FinishReason | None:
        """Refuse at once what can never run."""
        if not req.prompt_len:
            return FinishReason(kind="error", message="the prompt is empty", status=400)
        # The last token sampled is never fed, so it needs no memory.
        capacity = min(self.limits.context_length, self.cache.num_pages * self.cache.page_size + 1)
        output = max(req.max_new_tokens, 1)  # there is always room for a token, wanted or not
        if req.prompt_len + output > capacity:
            message = (
                f"the request needs {req.prompt_len + output} tokens (prompt {req.prompt_len}, output {output}) "
                f"but at most {capacity} fit"
            )
            return FinishReason(kind="error", message=message, status=400)
        # Who comes back after a loss has been taken in before: it is not turned away.
        if not req.ask.epoch and len(self.roster.queue) >= self.limits.max_queued:
            return FinishReason(kind="error", message="the queue is full", status=503)
        return ended_before(req, self.limits.eos_ids)

    def _attach_grammar(self, req: Req, spec: GrammarSpec) -> FinishReason | None:
        if self._grammars is None:
            return FinishReason(kind="error", message="structured output is not available here", status=400)
        try:
            req.set_grammar(self._grammars(spec))
        except ValueError as error:
            return FinishReason(kind="error", message=f"the grammar was refused: {error}", status=400)
        return None

    def _drop_quietly(self, req: Req) -> None:
        req.quiet = True
        self.finish(req, FinishReason(kind="abort", message="superseded", status=499), req.arrived_at)

    def _next_position(self, req: Req) -> int:
        sent = int(self.roster.columns.sent[req.slot]) if req.slot else req.sent
        return sent - req.prompt_len

    def _is_done_with_device(self, req: Req) -> bool:
        """Tell whether a request's KV is whole and only waits to be sent away: a device that forgot it does no harm."""
        return not self.role.speaks and req.phase is Phase.HELD and not self.roster.columns.in_flight[req.slot]

    def _uid_in(self, slot: int) -> int | None:
        """Name the live request of a slot. One that has ended is past blame, and its trial would never end."""
        req = self.roster.by_slot[slot]
        return None if req is None or req.phase is Phase.DONE else req.uid

    def _trace(self, name: str, uid: int) -> None:
        if self._notify is not None:
            self._notify(name, uid)
