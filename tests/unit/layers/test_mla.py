"""Tests of banyan.layers.mla."""

import pytest
import torch
from torch.nn import functional

from banyan.config.architecture import MLACard
from banyan.kernels.reference.rope import rope
from banyan.layers.mla import MLASpec, MLAttention
from tests.unit.layers.stubs import PLACE, CausalAttention, attend, fill

HEADS = 3
TURNS = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
ANGLES = [(TURNS.cos(), TURNS.sin())]
X = torch.randn(5, 8, generator=torch.Generator().manual_seed(9))


@pytest.mark.parametrize("q_rank", [0, 6])
@pytest.mark.parametrize("interleaved", [False, True])
def test_the_latent_form_is_attention_over_expanded_keys_and_values(q_rank: int, interleaved: bool) -> None:
    card = MLACard(q_rank=q_rank, kv_rank=10, nope_dim=5, rope_dim=4, value_dim=7)
    layer = MLAttention(8, MLASpec(HEADS, card, 0.3, interleaved, bias=q_rank > 0), 2, PLACE)
    fill(layer)
    compressed = X
    if q_rank:
        compressed = functional.linear(X, layer.q_a.weight, layer.q_a.bias)
        compressed = functional.rms_norm(compressed, (6,), layer.q_norm.weight, 1e-6)
    q = functional.linear(compressed, layer.q.weight).view(5, HEADS, 9)
    row = functional.linear(X, layer.kv_a.weight, layer.kv_a.bias)
    latent = functional.rms_norm(row[:, :10], (10,), layer.kv_norm.weight, 1e-6)
    q_turned, k_turned = rope(q[..., 5:], row[:, None, 10:], *ANGLES[0], interleaved)
    expanded = torch.einsum("nr,hdr->nhd", latent, layer.kv_b)
    keys = torch.cat((expanded[..., :5], k_turned.expand(-1, HEADS, -1)), dim=-1)
    seen = attend(torch.cat((q[..., :5], q_turned), dim=-1), keys, expanded[..., 5:], 0.3)
    wanted = functional.linear(seen.flatten(1), layer.o.weight, layer.o.bias)
    torch.testing.assert_close(layer.forward(X, ANGLES, CausalAttention()), wanted)


def test_the_cache_keeps_one_row_whose_head_is_the_value() -> None:
    card = MLACard(q_rank=0, kv_rank=10, nope_dim=5, rope_dim=4, value_dim=7)
    layer, backend = MLAttention(8, MLASpec(HEADS, card, 0.3, True, bias=False), 2, PLACE), CausalAttention()
    fill(layer)
    layer.forward(X, ANGLES, backend)
    q, k, v = backend.given[0]
    assert (q.shape, k.shape, v.shape) == ((5, HEADS, 14), (5, 1, 14), (5, 1, 10))
    assert torch.equal(k[..., :10], v)
    assert (layer.layer.index, layer.layer.num_kv_heads, layer.layer.key_dim, layer.layer.value_dim) == (2, 1, 14, 10)
