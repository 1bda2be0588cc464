"""MHATokenToKVPool and MLATokenToKVPool: the tensors of the KV cache on the device."""

from typing import Protocol

import torch
from torch import Tensor

from banyan.kernels.ops import StoreKV
from banyan.kernels.registry import op
from banyan.memory.store.layout import KVLayout


class TokenToKVPool(Protocol):
    """Keys and values by layer and location; a location is page * page_size + offset.

    Page 0 belongs to nobody: padding rows write there, and table entries that are not in use point there.
    """

    layout: KVLayout

    def set_kv_buffer(self, layer: int, loc: Tensor, k: Tensor, v: Tensor) -> None:
        """Write k [n, heads, key_dim] and v [n, heads, value_dim] at loc [n]."""

    def get_key_buffer(self, layer: int) -> Tensor:
        """Return all keys of a layer: [tokens, heads, key_dim]."""

    def get_value_buffer(self, layer: int) -> Tensor:
        """Return all values of a layer: [tokens, heads, value_dim]."""


class MHATokenToKVPool:
    """Keys and values of each head."""

    def __init__(self, layout: KVLayout, num_pages: int, device: torch.device) -> None:
        self.layout = layout
        self._store: StoreKV = op("store_kv", device)
        self.k_buffer = _buffers(layout, layout.key_dim, num_pages, device)
        self.v_buffer = _buffers(layout, layout.value_dim, num_pages, device)

    def set_kv_buffer(self, layer: int, loc: Tensor, k: Tensor, v: Tensor) -> None:
        """Write keys and values."""
        self._store(self.k_buffer[layer], loc, k)
        self._store(self.v_buffer[layer], loc, v)

    def get_key_buffer(self, layer: int) -> Tensor:
        """Return all keys of a layer."""
        return self.k_buffer[layer]

    def get_value_buffer(self, layer: int) -> Tensor:
        """Return all values of a layer."""
        return self.v_buffer[layer]


class MLATokenToKVPool:
    """One latent row per token: a latent vector, which is the value, and the turned part of the key behind it."""

    def __init__(self, layout: KVLayout, num_pages: int, device: torch.device) -> None:
        self.layout = layout
        self._store: StoreKV = op("store_kv", device)
        self.kv_buffer = _buffers(layout, layout.key_dim, num_pages, device)

    def set_kv_buffer(self, layer: int, loc: Tensor, k: Tensor, v: Tensor) -> None:
        """Write keys; the values are in them."""
        del v
        self._store(self.kv_buffer[layer], loc, k)

    def get_key_buffer(self, layer: int) -> Tensor:
        """Return all latent rows of a layer."""
        return self.kv_buffer[layer]

    def get_value_buffer(self, layer: int) -> Tensor:
        """Return the latent part of all rows of a layer."""
        return self.kv_buffer[layer][..., : self.layout.value_dim]


def make_pool(layout: KVLayout, num_pages: int, device: torch.device) -> TokenToKVPool:
    """Make the pool that a layout asks for, with room for pages 1 to num_pages."""
    if layout.latent:
        return MLATokenToKVPool(layout, num_pages, device)
    return MHATokenToKVPool(layout, num_pages, device)


def _buffers(layout: KVLayout, dim: int, num_pages: int, device: torch.device) -> list[Tensor]:
    # Zeros, because what is masked out is still multiplied, and old memory may hold a NaN.
    shape = ((num_pages + 1) * layout.page_size, layout.num_kv_heads, dim)
    return [torch.zeros(shape, dtype=layout.dtype, device=device) for _ in range(layout.num_layers)]
