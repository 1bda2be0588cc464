"""AttentionBackend: plan(batch) on the host once a step, run(q, k, v, layer) on the device once a layer."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from banyan.forward import ForwardBatch


@dataclass(frozen=True, slots=True)
class AttentionLayer:
    """What a backend must know of a layer that attends."""

    index: int  # of its KV buffers
    num_heads: int
    num_kv_heads: int
    key_dim: int
    value_dim: int
    scale: float
    window: int = 0  # tokens that are seen, the token itself included; 0: all
    softcap: float = 0.0  # 0: none
    sinks: Tensor | None = None  # [num_heads]: scores that take attention and give nothing
    causal: bool = True


class AttentionBackend(Protocol):
    """Attention over the paged KV cache. Holds the pool, and the plan of the current step."""

    def plan(self, batch: ForwardBatch) -> None:
        """Prepare a step: what all layers share is computed here."""

    def run(self, q: Tensor, k: Tensor, v: Tensor, layer: AttentionLayer) -> Tensor:
        """Write k [T, kv_heads, key_dim] and v of all tokens, then attend with q [T, heads, key_dim].

        All is written first: a row may read what an earlier row of the same step wrote. Returns
        [T, heads, value_dim].
        """
