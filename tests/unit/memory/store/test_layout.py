"""Tests of banyan.memory.store.layout."""

import torch

from banyan.memory.store.layout import KVLayout


def test_bytes_of_keys_and_values() -> None:
    layout = KVLayout(30, 3, 64, 64, 16, torch.float32)
    assert layout.bytes_per_token == 30 * 3 * (64 + 64) * 4
    assert layout.bytes_per_page == 16 * layout.bytes_per_token


def test_values_inside_keys_take_no_bytes() -> None:
    layout = KVLayout(61, 1, 576, 512, 1, torch.bfloat16, latent=True)
    assert layout.bytes_per_token == 61 * 576 * 2
