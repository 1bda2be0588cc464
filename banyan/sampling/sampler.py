"""Sampler: logits to token ids, the same ones for the same seed and position, whoever shares the batch."""

import numpy as np
import torch

from banyan.plan import U32
from banyan.sampling.noise import uniform
from banyan.sampling.processors import apply_extras, apply_mask, draw, filter_probabilities
from banyan.sampling.state import SamplingState
from banyan.wire.base import I32, Bool


class Sampler:
    """Chooses tokens for rows of logits. Greedy rows cost an argmax; only rows that ask for more pay for it."""

    def __init__(self, state: SamplingState) -> None:
        self._state = state

    def sample(
        self, logits: torch.Tensor, slots: I32, positions: I32, masked: I32, masks: U32 | None
    ) -> tuple[torch.Tensor, Bool]:
        """Choose a token for each row of logits [rows, vocab] float32, which may be changed in place.

        `positions` are those of the tokens chosen; `masked` names the rows that `masks` [masked, words] constrains.
        Returns the tokens, and which rows have no token that could be chosen (their token is 0)."""
        state = self._state
        for row in np.flatnonzero(state.special[slots]).tolist():
            apply_extras(logits[row], state.extras[int(slots[row])], int(positions[row]))
        if masks is not None:
            words = torch.from_numpy(masks.view(np.int32)).to(logits.device)
            for row, mask in zip(masked.tolist(), words, strict=True):
                apply_mask(logits[row], mask)
        best, tokens = logits.max(dim=-1)
        bad = ~torch.isfinite(best)
        drawn = np.flatnonzero(state.temperature[slots] > 0)
        if len(drawn):
            rows = torch.from_numpy(drawn).to(logits.device)
            chosen = self._draw(logits[rows], slots[drawn], positions[drawn])
            tokens[rows] = torch.where(bad[rows], 0, chosen)
        tokens.masked_fill_(bad, 0)
        for row in np.flatnonzero(state.special[slots]).tolist():
            state.sampled(int(slots[row]), int(tokens[row]))
        return tokens, bad.cpu().numpy()

    def _draw(self, logits: torch.Tensor, slots: I32, positions: I32) -> torch.Tensor:
        state = self._state
        device = logits.device
        temperature = torch.from_numpy(state.temperature[slots]).to(device)
        probabilities = torch.softmax(logits / temperature[:, None], dim=-1)
        top_k, top_p, min_p = state.top_k[slots], state.top_p[slots], state.min_p[slots]
        filtered = (top_k < logits.shape[1]) | (top_p < 1) | (min_p > 0)
        if filtered.any():
            rows = torch.from_numpy(np.flatnonzero(filtered)).to(device)
            probabilities[rows] = filter_probabilities(
                probabilities[rows],
                torch.from_numpy(top_k[filtered]).to(device),
                torch.from_numpy(top_p[filtered]).to(device),
                torch.from_numpy(min_p[filtered]).to(device),
            )
        chance = uniform(state.seed[slots], positions - state.prompt_len[slots])
        return draw(probabilities, torch.from_numpy(chance).to(device))
