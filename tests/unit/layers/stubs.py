"""A place on the CPU, filled layers, and a backend that shows what it was given."""

import torch
from torch import Tensor, nn

from banyan.attention.base import AttentionLayer
from banyan.forward import ForwardBatch
from banyan.layers.parameter import Place, slots

PLACE = Place(torch.device("cpu"), torch.float32)


def fill(layer: nn.Module, seed: int = 0) -> None:
    """Give every parameter random values."""
    generator = torch.Generator().manual_seed(seed)
    for _, slot in slots(layer):
        slot.tensor.copy_(torch.randn(slot.tensor.shape, generator=generator) * 0.3)


class CausalAttention:
    """Attends within the batch alone, as if it were one new row. Keeps what it was given."""

    def __init__(self) -> None:
        self.given: list[tuple[Tensor, Tensor, Tensor]] = []

    def plan(self, batch: ForwardBatch) -> None:
        """Nothing to plan."""

    def run(self, q: Tensor, k: Tensor, v: Tensor, layer: AttentionLayer) -> Tensor:
        """Attend with plain products."""
        self.given.append((q, k, v))
        return attend(q, k, v, layer.scale)


def attend(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Attend causally with q [n, heads, dim], k and v [n, kv_heads, dim]."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    scores = torch.einsum("nhd,mhd->hnm", q, k) * scale
    scores = scores.masked_fill(torch.ones(len(q), len(q)).triu(1) == 1, float("-inf"))
    return torch.einsum("hnm,mhd->nhd", torch.softmax(scores, -1), v)
