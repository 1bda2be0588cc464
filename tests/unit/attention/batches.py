"""Random ragged batches over scattered pages, and layers to attend with."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from banyan.attention.base import AttentionLayer
from banyan.attention.select import make_backend
from banyan.forward import ForwardBatch, build_batch
from banyan.memory.store.device import TokenToKVPool, make_pool
from banyan.memory.store.layout import KVLayout
from banyan.memory.store.tables import ReqToTokenPool

CPU = torch.device("cpu")
PAGE = 4
MAX_PAGES = 200


def make_layer(**differences: Any) -> AttentionLayer:
    """Describe a layer with grouped heads; `differences` as the fields of AttentionLayer."""
    plain = {"index": 0, "num_heads": 6, "num_kv_heads": 2, "key_dim": 8, "value_dim": 8, "scale": 0.4}
    return AttentionLayer(**{**plain, **differences})


@dataclass
class World:
    """Rows in a KV cache: prefixes are in it already."""

    pool: TokenToKVPool
    batch: ForwardBatch
    layer: AttentionLayer
    q: Tensor
    k: Tensor
    v: Tensor

    def run(self, backend: str) -> Tensor:
        """Attend, starting from the same cache every time."""
        found = make_backend(backend, self.pool, CPU)
        found.plan(self.batch)
        return found.run(self.q, self.k, self.v, self.layer)

    def part(self, begin: int, end: int) -> "World":
        """Take some of the tokens of a world of one row that has no prefix; the cache is the same."""
        batch = build_batch(
            slots=self.batch.row_slots_np,
            starts=np.array([begin], np.int32),
            lengths=np.array([end - begin], np.int32),
            samples=np.ones(1, np.bool_),
            input_ids=self.batch.input_ids[begin:end],
            page_table=self.batch.page_table,
            page_size=PAGE,
        )
        return World(self.pool, batch, self.layer, self.q[begin:end], self.k[begin:end], self.v[begin:end])


def make_world(
    prefixes: list[int], lengths: list[int], layer: AttentionLayer, seed: int = 0, dtype: torch.dtype = torch.float32
) -> World:
    """Fill a cache with prefixes, and make tokens to feed."""
    generator = torch.Generator().manual_seed(seed)
    rng = np.random.default_rng(seed)

    def randn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    num_slots = len(lengths) + 2
    latent = layer.value_dim != layer.key_dim
    layout = KVLayout(1, layer.num_kv_heads, layer.key_dim, layer.value_dim, PAGE, dtype, latent)
    num_pages = sum(-(-(a + b) // PAGE) for a, b in zip(prefixes, lengths, strict=True))
    pool = make_pool(layout, num_pages + 5, CPU)
    # What no row owns is not a number, but for page 0: to read it shows.
    every = torch.arange(PAGE, (num_pages + 6) * PAGE)
    nan = torch.full((len(every), layer.num_kv_heads, layer.key_dim), float("nan"), dtype=dtype)
    pool.set_kv_buffer(0, every, nan, nan[..., : layer.value_dim])
    tables = ReqToTokenPool(num_slots, MAX_PAGES, CPU)
    free = (rng.permutation(num_pages + 5) + 1).astype(np.int32)
    slots = rng.permutation(num_slots)[: len(lengths)].astype(np.int32) + 1
    for slot, prefix, length in zip(slots, prefixes, lengths, strict=True):
        count = -(-(prefix + length) // PAGE)
        pages, free = free[:count], free[count:]
        tables.set_pages(np.full(count, slot, np.int32), np.arange(count, dtype=np.int32), pages)
        position = torch.arange(prefix)
        loc = torch.from_numpy(pages).long()[position // PAGE] * PAGE + position % PAGE
        k = randn(prefix, layer.num_kv_heads, layer.key_dim)
        v = k[..., : layer.value_dim] if latent else randn(prefix, layer.num_kv_heads, layer.value_dim)
        pool.set_kv_buffer(0, loc, k, v)
    total = sum(lengths)
    batch = build_batch(
        slots=slots,
        starts=np.array(prefixes, np.int32),
        lengths=np.array(lengths, np.int32),
        samples=np.ones(len(lengths), np.bool_),
        input_ids=torch.zeros(total, dtype=torch.int64),
        page_table=tables.page_table,
        page_size=PAGE,
    )
    q, k = randn(total, layer.num_heads, layer.key_dim), randn(total, layer.num_kv_heads, layer.key_dim)
    v = k[..., : layer.value_dim] if latent else randn(total, layer.num_kv_heads, layer.value_dim)
    return World(pool, batch, layer, q, k, v)
