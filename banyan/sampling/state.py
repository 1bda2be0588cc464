"""SamplingState: how each slot samples. Numbers in columns; tables as large as the vocabulary only where needed."""

from dataclasses import dataclass

import numpy as np
import torch

from banyan.plan import Admission
from banyan.wire.base import I32, I64, Bool
from banyan.wire.request import SamplingParams


@dataclass(slots=True)
class Extras:
    """What only some requests bring: penalties, biases, a least length."""

    sampling: SamplingParams
    counts: torch.Tensor | None  # [vocab] how often each token was put out
    seen: torch.Tensor | None  # [vocab] 1 where a token is in the prompt or the output
    bias_ids: torch.Tensor  # [biases]
    bias_values: torch.Tensor  # [biases]
    early_ids: torch.Tensor  # tokens that may not come before the least length
    min_length: int  # length of the sequence, prompt included, before which they are barred


class SamplingState:
    """Filled from admissions, read by the sampler, indexed by slot."""

    def __init__(self, num_slots: int, vocab_size: int, eos_ids: tuple[int, ...], device: torch.device) -> None:
        rows = num_slots + 1
        self.temperature = np.zeros(rows, np.float32)
        self.top_p = np.ones(rows, np.float32)
        self.top_k: I32 = np.full(rows, vocab_size, np.int32)
        self.min_p = np.zeros(rows, np.float32)
        self.seed: I64 = np.zeros(rows, np.int64)
        self.prompt_len: I32 = np.zeros(rows, np.int32)
        self.special: Bool = np.zeros(rows, np.bool_)  # has extras
        self.extras: dict[int, Extras] = {}
        self._vocab_size = vocab_size
        self._eos_ids = eos_ids
        self._device = device

    def admit(self, admission: Admission) -> None:
        """Take up a request in its slot, with what it has put out before."""
        slot, sampling = admission.slot, admission.sampling
        self.release(slot)
        if sampling is None:
            return
        self.temperature[slot] = sampling.temperature
        self.top_p[slot] = sampling.top_p
        self.top_k[slot] = self._vocab_size if sampling.top_k < 1 else min(sampling.top_k, self._vocab_size)
        self.min_p[slot] = sampling.min_p
        self.seed[slot] = admission.seed
        self.prompt_len[slot] = admission.prompt_len
        extras = self._extras(sampling, admission)
        self.special[slot] = extras is not None
        if extras is not None:
            self.extras[slot] = extras

    def release(self, slot: int) -> None:
        """Forget a slot's request."""
        self.special[slot] = False
        self.extras.pop(slot, None)

    def sampled(self, slot: int, token: int) -> None:
        """Count a token that a slot with extras has put out."""
        extras = self.extras[slot]
        if extras.counts is not None:
            extras.counts[token] += 1
        if extras.seen is not None:
            extras.seen[token] = True

    def _extras(self, sampling: SamplingParams, admission: Admission) -> Extras | None:
        counting = sampling.frequency_penalty != 0 or sampling.presence_penalty != 0
        repeating = sampling.repetition_penalty != 1
        early = sampling.stop_token_ids + (() if sampling.ignore_eos else self._eos_ids)
        barred = sampling.min_new_tokens > 0 and bool(early)
        if not (counting or repeating or barred or sampling.logit_bias):
            return None
        output = admission.history[admission.prompt_len :]
        return Extras(
            sampling=sampling,
            counts=self._count(output) if counting else None,
            seen=self._count(admission.history) > 0 if repeating else None,
            bias_ids=self._tensor([token for token, _ in sampling.logit_bias], torch.int64),
            bias_values=self._tensor([value for _, value in sampling.logit_bias], torch.float32),
            early_ids=self._tensor(list(early) if barred else [], torch.int64),
            min_length=admission.prompt_len + sampling.min_new_tokens,
        )

    def _count(self, tokens: I32) -> torch.Tensor:
        counts = np.bincount(tokens, minlength=self._vocab_size)[: self._vocab_size]
        return torch.as_tensor(counts, dtype=torch.float32, device=self._device)

    def _tensor(self, values: list[int] | list[float], dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=self._device)
