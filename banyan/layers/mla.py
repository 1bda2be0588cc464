"""MLAttention: attention over a cache of latent rows, as in DeepSeek.

Keys and values are projections of a small latent vector. The projection of keys is moved to the queries and that of
values behind the attention, so that the backend sees one shared key head whose leading numbers are the values.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from banyan.attention.base import AttentionBackend, AttentionLayer
from banyan.config.architecture import MLACard
from banyan.kernels import ops
from banyan.kernels.registry import op
from banyan.layers.linear import Linear
from banyan.layers.norm import RMSNorm
from banyan.layers.parameter import Layer, Parts, Place
from banyan.layers.rope import Angles

_NORM_EPS = 1e-6  # of the latent norms, whatever the model's own is


@dataclass(frozen=True, slots=True)
class MLASpec:
    """The latent attention of one layer."""

    num_heads: int
    card: MLACard
    scale: float
    interleaved: bool
    bias: bool  # of the projections from and to the hidden size


class MLAttention(Layer):
    """Multi-head latent attention over the paged KV cache. `index` is that of its KV buffer."""

    def __init__(self, hidden_size: int, spec: MLASpec, index: int, place: Place) -> None:
        super().__init__()
        self._rope: ops.Rope = op("rope", place.device)
        self._spec = spec
        card, heads = spec.card, spec.num_heads
        q_size = heads * (card.nope_dim + card.rope_dim)
        if card.q_rank:
            self.q_a = Linear(hidden_size, card.q_rank, bias=spec.bias, place=place)
            self.q_norm = RMSNorm(card.q_rank, eps=_NORM_EPS, plus_one=False, place=place)
        self.q = Linear(card.q_rank or hidden_size, q_size, bias=False, place=place)
        self.kv_a = Linear(hidden_size, card.kv_rank + card.rope_dim, bias=spec.bias, place=place)
        self.kv_norm = RMSNorm(card.kv_rank, eps=_NORM_EPS, plus_one=False, place=place)
        # [heads, nope_dim + value_dim, kv_rank]: the projections of keys and of values
        self.kv_b = place.parameter(heads, card.nope_dim + card.value_dim, card.kv_rank)
        self.parts = {"kv_b": Parts(1, (card.nope_dim, card.value_dim))}
        self.o = Linear(heads * card.value_dim, hidden_size, bias=spec.bias, place=place)
        self.layer = AttentionLayer(
            index=index,
            num_heads=heads,
            num_kv_heads=1,
            key_dim=card.kv_rank + card.rope_dim,
            value_dim=card.kv_rank,
            scale=spec.scale,
        )

    def forward(self, x: Tensor, angles: Sequence[Angles], attention: AttentionBackend) -> Tensor:
        """Map x [n, hidden] -> [n, hidden]."""
        card = self._spec.card
        compressed = self.q_norm.forward(self.q_a.forward(x)) if card.q_rank else x
        q = self.q.forward(compressed).view(x.shape[0], self._spec.num_heads, card.nope_dim + card.rope_dim)
        q_plain, q_turning = q.split_with_sizes((card.nope_dim, card.rope_dim), dim=-1)
        latent, k_turning = self.kv_a.forward(x)[:, None].split_with_sizes((card.kv_rank, card.rope_dim), dim=-1)
        latent = self.kv_norm.forward(latent)
        q_turned, k_turned = self._rope(q_turning, k_turning, *angles[0], self._spec.interleaved)
        to_key, to_value = self.kv_b.split_with_sizes((card.nope_dim, card.value_dim), dim=1)
        q_latent = torch.einsum("nhd,hdr->nhr", q_plain, to_key)
        queries, keys = torch.cat((q_latent, q_turned), dim=-1), torch.cat((latent, k_turned), dim=-1)
        seen = attention.run(queries, keys, latent, self.layer)
        return self.o.forward(torch.einsum("nhr,hdr->nhd", seen, to_value).flatten(1))
