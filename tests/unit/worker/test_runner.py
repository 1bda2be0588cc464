"""Tests of banyan.worker.runner."""

import pytest
import torch

from banyan.worker.runner import ModelRunner, layout_of
from tests.unit.worker.networks import CPU, network


def test_the_layout_is_that_of_the_network() -> None:
    layout = layout_of(network("llama"), page_size=16)
    assert (layout.num_layers, layout.num_kv_heads, layout.key_dim, layout.value_dim) == (3, 2, 8, 8)
    assert layout.dtype == torch.float32
    assert not layout.latent
    assert layout_of(network("deepseek_v2"), page_size=16).latent


def test_a_network_that_embeds_has_no_logits() -> None:
    runner = ModelRunner(network("bert"), num_pages=4, page_size=4, backend="auto", device=CPU)
    assert not runner.generates
    with pytest.raises(ValueError, match="no logits"):
        runner.logits(torch.zeros(1, 16))
