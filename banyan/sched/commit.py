"""Committer: apply a step's tokens to the sequences, all rows at once; loop only over rows that change state."""

from dataclasses import dataclass, field

import numpy as np

from banyan.plan import Step, StepResult
from banyan.sched.finish import ends, ends_by_rare_stop, reason
from banyan.sched.output import OutputPacker
from banyan.sched.req import Phase, Req
from banyan.sched.roles import Role
from banyan.sched.roster import Roster
from banyan.wire.base import F32, I32
from banyan.wire.control import ToDetokenizer
from banyan.wire.output import FinishReason

_NO_VECTOR: F32 = np.zeros(0, np.float32)


@dataclass(slots=True)
class Totals:
    """Tokens counted since the start."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


@dataclass(slots=True)
class Committed:
    """What a commit brought about."""

    messages: list[ToDetokenizer] = field(default_factory=list)
    begun: list[Req] = field(default_factory=list)  # have their first token
    ended: list[Req] = field(default_factory=list)


class Committer:
    """Turns a StepResult into longer sequences, ends and messages."""

    def __init__(self, roster: Roster, packer: OutputPacker, eos_ids: tuple[int, ...]) -> None:
        self._roster = roster
        self._packer = packer
        self._eos_ids = eos_ids
        self.totals = Totals()

    def commit(self, step: Step, result: StepResult, role: Role, now: float) -> Committed:
        """Apply one step. Rows of requests that ended while it ran are ignored."""
        columns, by_slot = self._roster.columns, self._roster.by_slot
        done = Committed()
        slots = step.slots()
        columns.in_flight[slots] -= 1
        alive = columns.phase[slots] != Phase.DONE
        self._end_failed(result, slots, done)
        grown = alive & (result.tokens >= 0)
        rows = np.flatnonzero(grown)
        live, tokens = slots[rows], result.tokens[rows]
        columns.tokens[live, columns.known[live]] = tokens
        columns.known[live] += 1
        self.totals.output_tokens += len(live)
        ending = ends(columns, live, tokens)
        for row in np.flatnonzero(columns.special[live] & ~ending).tolist():
            ending[row] = self._feed_special(by_slot[live[row]], int(tokens[row]), done)
        for row in np.flatnonzero(ending).tolist():
            req = by_slot[live[row]]
            if req is not None and req.reason is None:
                req.reason = reason(columns, req, int(tokens[row]), self._eos_ids)
                done.ended.append(req)
        for entry in result.logprobs:
            req = by_slot[slots[entry.row]]
            if req is not None and req.logprobs is not None and alive[entry.row]:
                req.logprobs.add(entry, sampled=bool(grown[entry.row]))
        for row, state in result.hidden_states:
            req = by_slot[slots[row]]
            if req is not None and req.hidden is not None and grown[row]:
                req.hidden.add(state)
        vectors = self._commit_prompts(step, result, role, done, now)
        self._pack(live, vectors, role, done, now)
        for req in done.ended:
            if req.reason is not None:
                self._roster.end(req, req.reason)
        self._settle(slots)
        return done

    def _feed_special(self, req: Req | None, token: int, done: Committed) -> bool:
        """Look for stop tokens beyond the column, else advance the grammar. True: the request ends with this token."""
        if req is None:
            return False
        if ends_by_rare_stop(req, self._roster.columns, token, self._eos_ids):
            return True
        try:
            if req.grammar is not None:
                req.grammar.accept(token)
        except ValueError as error:
            req.reason = FinishReason(kind="error", message=f"the output left the grammar: {error}", status=500)
            done.ended.append(req)
        return False

    def _end_failed(self, result: StepResult, slots: I32, done: Committed) -> None:
        for row, message in result.failed:
            req = self._roster.by_slot[slots[row]]
            if req is not None and req.phase is not Phase.DONE:
                req.reason = FinishReason(kind="error", message=message, status=500)
                done.ended.append(req)

    def _commit_prompts(
        self, step: Step, result: StepResult, role: Role, done: Committed, now: float
    ) -> dict[int, F32]:
        """Look after the extend rows: first tokens, and requests that want no output. Returns vectors by uid."""
        columns = self._roster.columns
        vectors: dict[int, F32] = {}
        for row, slot in enumerate(step.extend_slots.tolist()):
            req = self._roster.by_slot[slot]
            if req is None or req.phase is Phase.DONE:
                continue
            through = columns.fed[slot] >= len(req.tokens)
            if step.extend_samples[row]:
                if req.first_token_at < 0:
                    self._count_prompt(req)
                    req.first_token_at = now
                    done.begun.append(req)
                if req.reason is None:
                    role.prompt_committed(req)
            elif req.phase is Phase.HELD and through and not columns.in_flight[slot] and req.reason is None:
                if req.length_limit > len(req.tokens):
                    continue
                self._count_prompt(req)
                req.reason = FinishReason(kind="length")
                done.ended.append(req)
                if result.embeddings is not None and req.is_embedding:
                    vectors[req.uid] = result.embeddings[row]
        return vectors

    def _count_prompt(self, req: Req) -> None:
        self.totals.prompt_tokens += req.prompt_len
        self.totals.cached_tokens += req.cached_tokens

    def _pack(self, live: I32, vectors: dict[int, F32], role: Role, done: Committed, now: float) -> None:
        heard = [req for req in done.ended if not req.quiet]
        embedded = [req for req in heard if req.is_embedding]
        if embedded:
            columns = [vectors.get(req.uid, _NO_VECTOR) for req in embedded]
            done.messages.append(self._packer.embeddings(embedded, columns, now))
        if not role.speaks:
            live = live[:0]
            heard = [req for req in heard if req.reason is not None and req.reason.kind in ("error", "abort")]
        message = self._packer.pack(live, self._roster.by_slot, [r for r in heard if not r.is_embedding], now)
        if message is not None:
            done.messages.append(message)

    def _settle(self, slots: I32) -> None:
        """Let go of slots that only this step still touched."""
        columns = self._roster.columns
        phases = columns.phase[slots]
        leaving = ((phases == Phase.DONE) | (phases == Phase.RETRACT)) & (columns.in_flight[slots] == 0)
        for row in np.flatnonzero(leaving).tolist():
            req = self._roster.by_slot[slots[row]]
            if req is not None:
                self._roster.settle(req)
