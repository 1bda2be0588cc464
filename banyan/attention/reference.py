"""ReferenceAttention: the plainest backend; the truth the others are tested against."""

import torch
from torch import Tensor

from banyan.attention.base import AttentionLayer
from banyan.forward import ForwardBatch
from banyan.kernels.ops import PagedAttention
from banyan.kernels.registry import op
from banyan.memory.store.device import TokenToKVPool


class ReferenceAttention:
    """Row by row, in float32, on any device."""

    def __init__(self, pool: TokenToKVPool, device: torch.device) -> None:
        self._pool = pool
        self._attend: PagedAttention = op("paged_attention", device)
        self._batch: ForwardBatch | None = None
        self._pages = torch.empty(0)

    def plan(self, batch: ForwardBatch) -> None:
        """Take the batch and its rows of the page table."""
        self._batch = batch
        self._pages = batch.page_table[batch.row_slots]

    def run(self, q: Tensor, k: Tensor, v: Tensor, layer: AttentionLayer) -> Tensor:
        """Write all keys and values, then attend."""
        batch = self._batch
        if batch is None:
            raise RuntimeError("run() before plan()")
        self._pool.set_kv_buffer(layer.index, batch.out_loc, k, v)
        return self._attend(
            q,
            self._pool.get_key_buffer(layer.index),
            self._pool.get_value_buffer(layer.index),
            self._pages,
            batch.row_starts_np,
            batch.prefix_lens_np,
            batch.seq_lens_np,
            page_size=batch.page_size,
            scale=layer.scale,
            window=layer.window,
            softcap=layer.softcap,
            sinks=layer.sinks,
            causal=layer.causal,
        )
