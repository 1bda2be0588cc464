"""Tests of banyan.memory.store.device."""

import torch

from banyan.memory.store.device import MHATokenToKVPool, MLATokenToKVPool, make_pool
from banyan.memory.store.layout import KVLayout

CPU = torch.device("cpu")


def size_of(tensors: list[torch.Tensor]) -> int:
    """Count bytes."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def test_keys_and_values_by_layer_and_location() -> None:
    layout = KVLayout(2, 3, 4, 5, 8, torch.float32)
    pool = make_pool(layout, 6, CPU)
    assert isinstance(pool, MHATokenToKVPool)
    k, v = torch.randn(2, 3, 4), torch.randn(2, 3, 5)
    pool.set_kv_buffer(1, torch.tensor([17, 9]), k, v)
    assert torch.equal(pool.get_key_buffer(1)[[17, 9]], k)
    assert torch.equal(pool.get_value_buffer(1)[[17, 9]], v)
    assert not pool.get_key_buffer(0).any()
    assert pool.get_key_buffer(1).count_nonzero() == k.numel()
    # The reserved page comes on top.
    assert size_of([*pool.k_buffer, *pool.v_buffer]) == 7 * layout.bytes_per_page


def test_latent_values_are_a_view_of_the_keys() -> None:
    layout = KVLayout(2, 1, 6, 4, 8, torch.float32, latent=True)
    pool = make_pool(layout, 6, CPU)
    assert isinstance(pool, MLATokenToKVPool)
    k = torch.randn(2, 1, 6)
    pool.set_kv_buffer(1, torch.tensor([3, 50]), k, k[..., :4])
    assert torch.equal(pool.get_key_buffer(1)[[3, 50]], k)
    assert torch.equal(pool.get_value_buffer(1)[[3, 50]], k[..., :4])
    assert pool.get_value_buffer(1).data_ptr() == pool.get_key_buffer(1).data_ptr()
    assert size_of(pool.kv_buffer) == 7 * layout.bytes_per_page
