"""RadixAttention: project, turn, write KV and attend through the backend, project back."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from banyan.attention.base import AttentionBackend, AttentionLayer
from banyan.kernels import ops
from banyan.kernels.registry import op
from banyan.layers.linear import Linear, QKVLinear
from banyan.layers.norm import RMSNorm
from banyan.layers.parameter import Layer, Place
from banyan.layers.rope import Angles


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """The attention of one layer."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    scale: float
    rope: int | None = 0  # which of the model's rotary embeddings; None: it has none
    interleaved: bool = False
    window: int = 0
    softcap: float = 0.0
    sinks: bool = False
    causal: bool = True
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: bool = False
    norm_eps: float = 1e-6
    norm_plus_one: bool = False


class RadixAttention(Layer):
    """Self-attention over the paged KV cache. `index` is that of its KV buffers."""

    def __init__(self, hidden_size: int, spec: AttentionSpec, index: int, place: Place) -> None:
        super().__init__()
        self._rope: ops.Rope = op("rope", place.device)
        self._spec = spec
        self.qkv = QKVLinear(
            hidden_size, spec.num_heads, spec.num_kv_heads, spec.head_dim, bias=spec.qkv_bias, place=place
        )
        self.o = Linear(spec.num_heads * spec.head_dim, hidden_size, bias=spec.o_bias, place=place)
        self.q_norm = self._head_norm(place)
        self.k_norm = self._head_norm(place)
        self.sinks = place.parameter(spec.num_heads) if spec.sinks else None
        self.layer = AttentionLayer(
            index=index,
            num_heads=spec.num_heads,
            num_kv_heads=spec.num_kv_heads,
            key_dim=spec.head_dim,
            value_dim=spec.head_dim,
            scale=spec.scale,
            window=spec.window,
            softcap=spec.softcap,
            sinks=self.sinks,
            causal=spec.causal,
        )

    def forward(self, x: Tensor, angles: Sequence[Angles], attention: AttentionBackend) -> Tensor:
        """Map x [n, hidden] -> [n, hidden]."""
        q, k, v = self.qkv.heads(x)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm.forward(q), self.k_norm.forward(k)
        if self._spec.rope is not None:
            q, k = self._rope(q, k, *angles[self._spec.rope], self._spec.interleaved)
        return self.o.forward(attention.run(q, k, v, self.layer).flatten(1))

    def _head_norm(self, place: Place) -> RMSNorm | None:
        spec = self._spec
        if not spec.qk_norm:
            return None
        return RMSNorm(spec.head_dim, eps=spec.norm_eps, plus_one=spec.norm_plus_one, place=place)
