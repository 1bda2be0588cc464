"""FakeExecutor: an Executor on the oracle model, with KV pages, latency, strict checks and planted faults."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from banyan.plan import U32, Forward, Pending, Step, StepResult
from banyan.wire.base import F32, I32, I64, Bool
from banyan.wire.control import ControlReply, ControlReq
from banyan.worker import utf8
from banyan.worker.clock import Clock
from banyan.worker.fake_kv import DeviceFault, FakeKV
from banyan.worker.fake_logprobs import row_logprobs
from banyan.worker.fake_slots import FakeSlots, Fed, Launched
from banyan.worker.oracle import EMBEDDING_DIM, MASK_WORDS, PAD, VOCAB_SIZE, Oracle, allowed_tokens, early_tokens, unban

_REACH = 8  # tokens back that can tell where in a character a text stands


class StepError(RuntimeError):
    """A step failed on the device."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Device time of a step, split evenly over the stages, and host time of a launch."""

    step_s: float = 0.0
    token_s: float = 0.0  # for each token of an extend row
    host_s: float = 0.0


Failure = Callable[[Step], str | None]


@dataclass(frozen=True, slots=True)
class Faults:
    """Planted failures: the reason to fail a step with at each place, or rows that fail alone."""

    forward: Failure | None = None
    sample: Failure | None = None
    wait: Failure | None = None
    rows: Callable[[Step], Mapping[int, str]] | None = None


class FakePending:
    """Tokens on their way to the host."""

    def __init__(self, device: "FakeExecutor", step: Step, result: StepResult, ready_at: float) -> None:
        self.step = step
        self.result = result
        self.ready_at = ready_at
        self._device = device

    def ready(self) -> bool:
        """Tell whether the device is done with it."""
        return self._device.clock.now() >= self.ready_at

    def wait(self) -> StepResult:
        """Spend the time until then."""
        return self._device.finish(self)


class FakeExecutor:
    """Runs steps in order on the oracle model. What no correct scheduler asks for raises DeviceFault.

    `faults_seen` keeps every DeviceFault: a loop that recovers from failed steps cannot hide one."""

    def __init__(
        self,
        *,
        num_pages: int,
        page_size: int,
        num_slots: int,
        max_pages_per_slot: int,
        oracle: Oracle,
        clock: Clock,
        latency: Latency | None = None,
        stages: int = 1,
    ) -> None:
        self.kv = FakeKV(num_pages, page_size, num_slots, max_pages_per_slot)
        self.clock = clock
        self.faults = Faults()
        self.faults_seen: list[str] = []
        self.busy_s = 0.0
        self._oracle = oracle
        self._latency = latency or Latency()
        self._slots = FakeSlots(num_slots)
        self._stage_free_at = [0.0] * stages
        self._launched: deque[int] = deque()  # numbers of the steps that nobody waited for yet
        self._number = -1
        self._broken = False

    def uids(self, step: Step) -> I64:
        """Name the request of each row; for planting faults."""
        uids = self._slots.uids.copy()
        for admission in step.admissions:
            uids[admission.slot] = admission.uid
        rows: I64 = uids[step.slots()]
        return rows

    # ------------------------------------------------------------------ Executor

    def forward(self, step: Step) -> Forward:
        """Run every row's tokens through the oracle; time passes only for the host's share."""
        self.clock.sleep_until(self.clock.now() + self._latency.host_s)
        self._fail(self.faults.forward, step)
        try:
            return self._forward(step)
        except DeviceFault as fault:
            self._note(step, fault)
            raise

    def sample(self, forward: Forward, masks: U32 | None) -> Pending:
        """Draw each row's token and keep it as the slot's last."""
        if not isinstance(forward, Launched):
            raise TypeError("this forward pass was launched by another executor")
        self._fail(self.faults.sample, forward.step)
        try:
            result = self._sample(forward, masks)
        except DeviceFault as fault:
            self._note(forward.step, fault)
            raise
        return FakePending(self, forward.step, result, forward.ready_at)

    def finish(self, pending: FakePending) -> StepResult:
        """Wait for a launched step; steps end in the order of their launch."""
        if not self._launched or self._launched[0] != pending.step.number:
            fault = DeviceFault("waited for a dropped step, or before an earlier one")
            self._note(pending.step, fault)
            raise fault
        self.clock.sleep_until(pending.ready_at)
        self._fail(self.faults.wait, pending.step)
        self._launched.popleft()
        return pending.result

    def recover(self) -> None:
        """Forget the launched steps and all slots. Pages keep what finished steps wrote; the rest is wiped."""
        self.kv.poison(self._launched[0] if self._launched else self._number + 1)
        self._launched.clear()
        self._slots = FakeSlots(self._slots.num_slots)
        self._stage_free_at = [self.clock.now()] * len(self._stage_free_at)
        self._broken = False

    def control(self, request: ControlReq) -> ControlReply | None:  # noqa: ARG002
        """Do nothing: the oracle has no weights, adapters or profiler."""
        return None

    # ------------------------------------------------------------------ failing

    def _note(self, step: Step, fault: DeviceFault) -> None:
        self._broken = True
        self.faults_seen.append(f"step {step.number}: {fault}")

    def _fail(self, failure: Failure | None, step: Step) -> None:
        reason = failure(step) if failure is not None else None
        if reason is not None:
            self._broken = True
            raise StepError(reason)

    # ------------------------------------------------------------------ forward

    def _forward(self, step: Step) -> Launched:
        if self._broken:
            raise DeviceFault("a step was launched after a failed one, without recover()")
        if step.number <= self._number:
            raise DeviceFault(f"step numbers must rise: {step.number} after {self._number}")
        if step.transfers:
            raise DeviceFault("this device has no tiers and no links")
        self._number = step.number
        self._launched.append(step.number)
        self._slots.drop(step.released)
        self.kv.unmap(step.released)
        for admission in step.admissions:
            self._slots.admit(admission, self._oracle.origin(admission.lora))
        self.kv.map(step.page_slots, step.page_indices, step.page_ids)
        launched = Launched.empty(step, self._spend(step))
        live = self._slots.live[launched.slots]
        if not live.all():
            raise DeviceFault(f"rows for slots without admission: {launched.slots[~live].tolist()}")
        self._extend_rows(step, launched)
        if len(step.decode_slots):
            self._decode_rows(step, launched)
        return launched

    def _spend(self, step: Step) -> float:
        """Pass the step through the stages; each takes its share of the time, and one step at a time."""
        total = self._latency.step_s + self._latency.token_s * len(step.extend_tokens)
        share, at = total / len(self._stage_free_at), self.clock.now()
        for stage, free_at in enumerate(self._stage_free_at):
            at = max(at, free_at) + share
            self._stage_free_at[stage] = at
        self.busy_s += total
        return at

    def _extend_rows(self, step: Step, launched: Launched) -> None:
        """Run the extend rows one after another, so that each may read what those before it have written."""
        tokens = step.extend_tokens
        if len(tokens) != int(step.extend_lengths.sum()):
            raise DeviceFault("extend_tokens and extend_lengths disagree")
        if len(tokens) and not (tokens.min() >= 0 and tokens.max() < VOCAB_SIZE):
            raise DeviceFault("a token is outside the vocabulary")
        slots, end = self._slots, 0
        rows = zip(step.extend_slots.tolist(), step.extend_starts.tolist(), step.extend_lengths.tolist(), strict=True)
        for row, (slot, start, length) in enumerate(rows):
            fed, end = tokens[end : end + length], end + length
            self._enter(slot, start, fed)
            before, text = int(slots.states[slot]), int(slots.texts[slot])
            states, texts = self._oracle.extend(before, fed), utf8.scan(text, fed)
            self.kv.write(slot, start, before, states, step.number)
            if slots.asks[slot]:
                states_before = np.concatenate([np.array([before], np.uint64), states[:-1]])
                texts_before = np.concatenate([np.array([text], np.uint8), texts[:-1]])
                launched.fed[row] = Fed(start, fed, states_before, texts_before)
            slots.states[slot] = launched.states[row] = states[-1]
            slots.texts[slot] = launched.texts[row] = texts[-1]
            slots.lengths[slot] = launched.positions[row] = start + length

    def _enter(self, slot: int, start: int, fed: I32) -> None:
        """Check that an extend row continues its slot, reads its own pages, and feeds what its admission said."""
        slots, history = self._slots, self._slots.admissions[slot].history
        expected = history[start : start + len(fed)]
        if not len(fed) or not np.array_equal(fed[: len(expected)], expected):
            raise DeviceFault(f"slot {slot}: the tokens fed at {start} are none, or not those of the admission")
        length = int(slots.lengths[slot])
        if length >= 0:
            if start != length:
                raise DeviceFault(f"slot {slot}: a row starts at {start} after {length} positions")
            here = slice(slot, slot + 1)
            self.kv.check(np.array([slot], np.int32), slots.lengths[here], slots.states[here], slots.origins[here])
        elif start > len(history):
            raise DeviceFault(f"slot {slot}: the first row starts at {start}, after the end of the admission")
        elif start > 0:
            states = self._oracle.extend(int(slots.origins[slot]), history[:start])
            self.kv.check_prefix(slot, int(slots.origins[slot]), states)
            slots.states[slot] = states[-1]
            slots.texts[slot] = utf8.scan(utf8.WHOLE, history[max(0, start - _REACH) : start])[-1]

    def _decode_rows(self, step: Step, launched: Launched) -> None:
        """Feed each slot its last token, all rows at once."""
        slots, positions, rows = step.decode_slots, step.decode_positions, self._slots
        tokens, before = rows.last[slots], rows.states[slots]
        wrong = (tokens < 0) | (rows.lengths[slots] != positions)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise DeviceFault(
                f"slot {slots[row]}: a decode row at {positions[row]}, where the slot has"
                f" {rows.lengths[slots[row]]} positions and last token {tokens[row]}"
            )
        if len(self._stage_free_at) > 1 and (rows.sampled_in[slots] >= self._launched[0]).any():
            raise DeviceFault("a decode row follows a step that has not left the pipeline: its token is not known yet")
        self.kv.check(slots, positions, before, rows.origins[slots])
        states, texts = self._oracle.advance(before, tokens), utf8.AFTER[rows.texts[slots], tokens]
        self.kv.write_each(slots, positions, before, states, step.number)
        decodes = slice(step.num_extend, None)
        rows.states[slots] = launched.states[decodes] = states
        rows.texts[slots] = launched.texts[decodes] = texts
        rows.lengths[slots] = launched.positions[decodes] = positions + 1

    # ------------------------------------------------------------------ sample

    def _sample(self, launched: Launched, masks: U32 | None) -> StepResult:
        step, slots, rows = launched.step, launched.slots, self._slots
        num_masks = 0 if masks is None else len(masks)
        if num_masks != len(step.masked_rows) or (masks is not None and masks.shape[1] < MASK_WORDS):
            raise DeviceFault(f"{len(step.masked_rows)} rows need a mask, {num_masks} masks came")
        may_end = launched.positions >= rows.may_end[slots]
        tokens = self._oracle.draw(launched.states, launched.texts, rows.seeds[slots], launched.positions, may_end)
        failed = dict(self.faults.rows(step)) if self.faults.rows is not None else {}
        asking = np.flatnonzero(rows.asks[slots]).tolist()
        for row in asking:
            early = self._early(launched, row)
            if early is not None and early[tokens[row]]:
                tokens[row] = self._choose(launched, row, ~early)
        for mask, row in zip(masks if masks is not None else (), step.masked_rows.tolist(), strict=True):
            tokens[row] = self._choose(launched, row, unban(allowed_tokens(mask), self._early(launched, row)))
            if tokens[row] < 0:
                failed[row] = "the grammar allows no token"
        tokens[~launched.samples] = -1
        tokens[list(failed)] = -1
        # A row that fails alone may be in the next step already, which then feeds a token that does not count.
        rows.last[slots[launched.samples]] = np.where(tokens < 0, PAD, tokens)[launched.samples]
        rows.sampled_in[slots[launched.samples]] = step.number
        asked = [(row, rows.admissions[int(slots[row])]) for row in asking]
        found = (row_logprobs(self._oracle, a, launched, row, int(tokens[row])) for row, a in asked)
        logprobs = tuple(report for report in found if report is not None)
        vectors = [row for row, a in asked if a.sampling is None and launched.positions[row] == a.prompt_len]
        hidden = tuple((row, self._hidden(launched, row)) for row, a in asked if a.hidden_states and tokens[row] >= 0)
        return StepResult(
            tokens, logprobs, self._embeddings(launched, vectors), tuple(failed.items()), hidden_states=hidden
        )

    def _early(self, launched: Launched, row: int) -> Bool | None:
        """Tell which tokens would end the row's request before its least length."""
        slot = int(launched.slots[row])
        sampling = self._slots.admissions[slot].sampling
        if sampling is None or launched.positions[row] >= self._slots.may_end[slot]:
            return None
        return early_tokens(sampling)

    def _choose(self, launched: Launched, row: int, allowed: Bool) -> int:
        state, text, position = int(launched.states[row]), int(launched.texts[row]), int(launched.positions[row])
        return self._oracle.choose(state, text, int(self._slots.seeds[launched.slots[row]]), position, allowed)

    def _hidden(self, launched: Launched, row: int) -> F32:
        """Make a state that, like the sampled token, depends on every token so far."""
        state: F32 = self._oracle.embeddings(launched.states[row : row + 1])[0]
        return state

    def _embeddings(self, launched: Launched, rows: list[int]) -> F32 | None:
        if not rows:
            return None
        vectors: F32 = np.zeros((len(launched.slots), EMBEDDING_DIM), np.float32)
        vectors[rows] = self._oracle.embeddings(launched.states[rows])
        return vectors
