"""TpModelWorker: the Executor of one rank. A Step becomes a forward pass and tokens; slots keep state on the device."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from banyan.forward import ForwardBatch, build_batch
from banyan.memory.store.tables import ReqToTokenPool
from banyan.plan import U32, Admission, Forward, Pending, RowLogprobs, Step, StepResult
from banyan.sampling.logprobs import output_logprobs, prompt_logprobs
from banyan.sampling.sampler import Sampler
from banyan.sampling.state import SamplingState
from banyan.wire.base import F32, I32, Bool
from banyan.wire.control import ControlReply, ControlReq
from banyan.worker.runner import ModelRunner


@dataclass(frozen=True, slots=True)
class Launched:
    """A forward pass under way."""

    step: Step
    batch: ForwardBatch
    hidden: Tensor  # [T, hidden_size]


class Done:
    """A step whose tokens are there already: a CPU computes while it launches."""

    def __init__(self, result: StepResult) -> None:
        self._result = result

    def ready(self) -> bool:
        """Say yes."""
        return True

    def wait(self) -> StepResult:
        """Return the result."""
        return self._result


class TpModelWorker:
    """Runs steps in order on one device."""

    def __init__(
        self, runner: ModelRunner, *, num_slots: int, max_pages_per_slot: int, page_size: int, eos_ids: tuple[int, ...]
    ) -> None:
        self.runner = runner
        self._num_slots = num_slots
        self._page_size = page_size
        self._eos_ids = eos_ids
        self._tables = ReqToTokenPool(num_slots, max_pages_per_slot, runner.device)
        self._admissions: dict[int, Admission] = {}
        # By slot: who wants more than tokens. What is stale in a free slot is overwritten at the next admission.
        self._wants_logprobs: Bool = np.zeros(num_slots + 1, np.bool_)
        self._wants_states: Bool = np.zeros(num_slots + 1, np.bool_)
        self._state = self._new_state()
        self._sampler = Sampler(self._state)

    # ------------------------------------------------------------------ Executor

    def forward(self, step: Step) -> Forward:
        """Bring the tables up to date and run the model."""
        for slot in step.released.tolist():
            self._admissions.pop(slot, None)
            self._state.release(slot)
        for admission in step.admissions:
            self._admissions[admission.slot] = admission
            self._wants_logprobs[admission.slot] = admission.logprobs is not None
            self._wants_states[admission.slot] = admission.hidden_states
            self._state.admit(admission)
        self._tables.set_pages(step.page_slots, step.page_indices, step.page_ids)
        batch = self._batch(step)
        return Launched(step, batch, self.runner.forward(batch))

    @torch.inference_mode()
    def sample(self, forward: Forward, masks: U32 | None) -> Pending:
        """Choose the tokens of the rows that sample, or make their vectors."""
        if not isinstance(forward, Launched):
            raise TypeError("this forward pass was launched by another executor")
        step, batch = forward.step, forward.batch
        tokens: I32 = np.full(step.num_rows, -1, np.int32)
        rows = batch.sample_rows_np
        out = self.runner.head(forward.hidden, batch) if len(rows) else None
        if not self.runner.generates:
            return Done(StepResult(tokens, embeddings=self._spread(out, rows, step.num_rows)))
        asking = np.flatnonzero(self._wants_logprobs[step.slots()]).tolist()
        failed: tuple[tuple[int, str], ...] = ()
        reports: list[RowLogprobs] = [self._prompt_report(forward, row) for row in asking if row < step.num_extend]
        if out is not None:
            slots = step.slots()[rows]
            # Sampling changes the logits in place; what is reported is the model's own.
            raw = {int(rows[i]): out[i].clone() for i in np.flatnonzero(self._wants_logprobs[slots]).tolist()}
            chosen, bad = self._sampler.sample(out, slots, batch.seq_lens_np[rows], *self._masks(step, rows, masks))
            self._tables.set_last_tokens(torch.from_numpy(slots.astype(np.int64)).to(chosen.device), chosen)
            tokens[rows] = np.where(bad, -1, chosen.cpu().numpy())
            failed = tuple((int(row), "the model's output is not a number") for row in rows[bad])
            reports = self._merge(reports, raw, step, tokens)
        hidden = self._hidden_states(forward, tokens)
        return Done(StepResult(tokens, logprobs=tuple(reports), failed=failed, hidden_states=hidden))

    def recover(self) -> None:
        """Forget every slot. KV memory stays: what can be trusted is the ledger's business."""
        self._admissions.clear()
        self._state = self._new_state()
        self._sampler = Sampler(self._state)

    def control(self, request: ControlReq) -> ControlReply | None:  # noqa: ARG002
        """Do nothing: no control message is for this device yet."""
        return None

    # ------------------------------------------------------------------ batch

    def _batch(self, step: Step) -> ForwardBatch:
        device = self.runner.device
        prompt = torch.from_numpy(step.extend_tokens.astype(np.int64)).to(device)
        decode_slots = torch.from_numpy(step.decode_slots.astype(np.int64)).to(device)
        return build_batch(
            slots=step.slots(),
            starts=np.concatenate((step.extend_starts, step.decode_positions)),
            lengths=np.concatenate((step.extend_lengths, np.ones(len(step.decode_slots), np.int32))),
            samples=self._samples(step),
            input_ids=torch.cat((prompt, self._tables.get_last_tokens(decode_slots))),
            page_table=self._tables.page_table,
            page_size=self._page_size,
        )

    def _samples(self, step: Step) -> Bool:
        """Mark the rows whose last token the head is wanted for."""
        if self.runner.generates:
            return np.concatenate((step.extend_samples, np.ones(len(step.decode_slots), np.bool_)))
        ends = step.extend_starts + step.extend_lengths
        lengths = [self._admissions[slot].prompt_len for slot in step.extend_slots.tolist()]
        whole: Bool = ends == np.asarray(lengths, np.int32)
        return whole

    # ------------------------------------------------------------------ results

    def _masks(self, step: Step, rows: I32, masks: U32 | None) -> tuple[I32, U32 | None]:
        """Say which sampled rows are masked: the step counts all rows."""
        return np.searchsorted(rows, step.masked_rows).astype(np.int32), masks

    def _spread(self, out: Tensor | None, rows: I32, num_rows: int) -> F32 | None:
        if out is None:
            return None
        vectors: F32 = np.zeros((num_rows, out.shape[1]), np.float32)
        vectors[rows] = out.float().cpu().numpy()
        return vectors

    def _prompt_report(self, forward: Launched, row: int) -> RowLogprobs:
        """Report on the prompt positions that an extend row predicts, if its request wants them.

        The logits at position p predict the token at p + 1, which may be in the next chunk; the last position of the
        prompt predicts output, which is reported when it is sampled."""
        step, batch = forward.step, forward.batch
        admission = self._admissions[int(step.extend_slots[row])]
        spec = admission.logprobs
        start, length = int(step.extend_starts[row]), int(step.extend_lengths[row])
        first = max(start, spec.start) if spec is not None and spec.start >= 0 else start + length
        last = min(start + length, admission.prompt_len - 1)
        if spec is None or first >= last:
            return RowLogprobs(row=row, value=0.0)
        offset = int(batch.row_starts_np[row]) - start
        logits = self.runner.logits(forward.hidden[offset + first : offset + last])
        return prompt_logprobs(row, logits, admission.history[first + 1 : last + 1], spec)

    def _merge(self, reports: list[RowLogprobs], raw: dict[int, Tensor], step: Step, tokens: I32) -> list[RowLogprobs]:
        """Add the sampled tokens' log-probabilities to the prompt's."""
        slots = step.slots()
        prompts = {report.row: report for report in reports}
        merged = [report for row, report in prompts.items() if row not in raw]
        for row, logits in raw.items():
            spec = self._admissions[int(slots[row])].logprobs
            if spec is None or tokens[row] < 0:
                continue
            output = output_logprobs(row, logits, int(tokens[row]), spec)
            prompt = prompts.get(row)
            merged.append(output if prompt is None else _joined(output, prompt))
        return merged

    def _hidden_states(self, forward: Launched, tokens: I32) -> tuple[tuple[int, F32], ...]:
        """Give the states that the sampled tokens' logits came from, for requests that asked."""
        rows = forward.batch.sample_rows_np
        asking = np.flatnonzero(self._wants_states[forward.step.slots()[rows]] & (tokens[rows] >= 0)).tolist()
        if not asking:
            return ()
        states = forward.hidden[forward.batch.sample_index[asking]].float().cpu().numpy()
        return tuple((int(rows[i]), state) for i, state in zip(asking, states, strict=True))

    def _new_state(self) -> SamplingState:
        vocab_size = self.runner.model.spec.vocab_size
        return SamplingState(self._num_slots, vocab_size, self._eos_ids, self.runner.device)


def _joined(output: RowLogprobs, prompt: RowLogprobs) -> RowLogprobs:
    return RowLogprobs(
        row=output.row,
        value=output.value,
        top_ids=output.top_ids,
        top_values=output.top_values,
        chosen=output.chosen,
        prompt_values=prompt.prompt_values,
        prompt_top_ids=prompt.prompt_top_ids,
        prompt_top_values=prompt.prompt_top_values,
        prompt_chosen=prompt.prompt_chosen,
    )
