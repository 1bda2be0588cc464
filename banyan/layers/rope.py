"""RotaryEmbedding: the cosines and sines of positions, with every scaling for long contexts."""

import math
from typing import TypeAlias

import torch
from torch import Tensor

from banyan.config.rope import RopeCard
from banyan.layers.parameter import Layer, Place

Angles: TypeAlias = tuple[Tensor, Tensor]  # cosines and sines, each [tokens, rotary_dim / 2]


class RotaryEmbedding(Layer):
    """Angles of positions. They are computed once a step and shared by all layers.

    The angles of a position never depend on the length of a sequence: keys are kept turned, and are shared by
    sequences of any length. So `longrope` has one set of factors for the engine's context length, and `dynamic`
    stretches each position as if it were the last one, which is what token by token generation makes of it.
    """

    inv_freq: Tensor  # [rotary_dim / 2]

    def __init__(self, card: RopeCard, context_length: int, place: Place) -> None:
        super().__init__()
        self._card = card
        self._dtype = place.dtype
        self._frequencies = self._dynamic if card.kind == "dynamic" else self._static
        self.register_buffer("inv_freq", inverse_frequencies(card, context_length).to(place.device), persistent=False)

    def forward(self, positions: Tensor) -> Angles:
        """Return the angles of positions [n]."""
        turns = positions[:, None].float() * self._frequencies(positions)
        cos, sin = turns.cos() * self._card.attention_factor, turns.sin() * self._card.attention_factor
        return cos.to(self._dtype), sin.to(self._dtype)

    def _static(self, positions: Tensor) -> Tensor:
        del positions
        return self.inv_freq

    def _dynamic(self, positions: Tensor) -> Tensor:
        """Raise the base for positions beyond the original length: [n, rotary_dim / 2]."""
        card = self._card
        length = (positions + 1).clamp(min=card.original_length).double()
        stretch = card.factor * length / card.original_length - (card.factor - 1)
        raised = stretch ** (card.rotary_dim / (card.rotary_dim - 2))
        exponent = torch.arange(0, card.rotary_dim, 2, device=positions.device) / card.rotary_dim
        return ((card.theta * raised)[:, None] ** -exponent).float()


def inverse_frequencies(card: RopeCard, context_length: int) -> Tensor:
    """Return how far each pair of numbers turns from one position to the next: [rotary_dim / 2]."""
    exponent = torch.arange(0, card.rotary_dim, 2, dtype=torch.float32) / card.rotary_dim
    plain = 1.0 / card.theta**exponent
    if card.kind == "linear":
        return plain / card.factor
    if card.kind == "llama3":
        return _llama3(card, plain)
    if card.kind == "yarn":
        return _yarn(card, plain)
    if card.kind == "longrope":
        factors = card.long_factors if context_length > card.original_length else card.short_factors
        return plain / torch.tensor(factors, dtype=torch.float32)
    return plain


def _llama3(card: RopeCard, plain: Tensor) -> Tensor:
    """Slow turns are stretched, fast ones are not, those between are mixed."""
    turns = card.original_length * plain / (2 * math.pi)  # over the original length
    span = card.high_freq_factor - card.low_freq_factor
    kept = ((turns - card.low_freq_factor) / span).clamp(0, 1)
    return plain * (kept + (1 - kept) / card.factor)


def _yarn(card: RopeCard, plain: Tensor) -> Tensor:
    """As llama3, but mixed along the number of the pair instead of its speed."""
    low, high = (_pair_that_turns(card, times) for times in (card.beta_fast, card.beta_slow))
    if card.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, card.rotary_dim - 1)
    span = high - low or 0.001  # no division by zero
    stretched = ((torch.arange(card.rotary_dim // 2, dtype=torch.float32) - low) / span).clamp(0, 1)
    return plain / card.factor * stretched + plain * (1 - stretched)


def _pair_that_turns(card: RopeCard, times: float) -> float:
    """Return which pair turns so many times over the original length."""
    return card.rotary_dim * math.log(card.original_length / (times * 2 * math.pi)) / (2 * math.log(card.theta))
