"""Tests of banyan.layers.attention."""

import torch
from torch.nn import functional

from banyan.kernels.reference.rope import rope
from banyan.layers.attention import AttentionSpec, RadixAttention
from tests.unit.layers.stubs import PLACE, CausalAttention, attend, fill

SPEC = AttentionSpec(num_heads=4, num_kv_heads=2, head_dim=6, scale=0.5)
TURNS = [torch.randn(5, 3, generator=torch.Generator().manual_seed(number)) for number in range(2)]
ANGLES = [(turns.cos(), turns.sin()) for turns in TURNS]
X = torch.randn(5, 8, generator=torch.Generator().manual_seed(9))


def make(spec: AttentionSpec) -> RadixAttention:
    """Make a filled layer."""
    layer = RadixAttention(8, spec, 3, PLACE)
    fill(layer)
    return layer


def test_it_projects_turns_attends_and_projects_back() -> None:
    layer = make(SPEC)
    q, k, v = layer.qkv.heads(X)
    q, k = rope(q, k, *ANGLES[0], False)
    wanted = functional.linear(attend(q, k, v, 0.5).flatten(1), layer.o.weight)
    torch.testing.assert_close(layer.forward(X, ANGLES, CausalAttention()), wanted)


def test_heads_are_normalised_before_they_turn() -> None:
    layer = make(AttentionSpec(4, 2, 6, 0.5, rope=1, interleaved=True, qk_norm=True, norm_eps=0.1, norm_plus_one=True))
    assert layer.q_norm is not None
    assert layer.k_norm is not None
    backend = CausalAttention()
    layer.forward(X, ANGLES, backend)
    q, k, v = layer.qkv.heads(X)
    q = functional.rms_norm(q, (6,), layer.q_norm.weight + 1, 0.1)
    k = functional.rms_norm(k, (6,), layer.k_norm.weight + 1, 0.1)
    for given, wanted in zip(backend.given[0], (*rope(q, k, *ANGLES[1], True), v), strict=True):
        torch.testing.assert_close(given, wanted)


def test_without_a_rotary_embedding_nothing_turns() -> None:
    layer, backend = make(AttentionSpec(4, 2, 6, 0.5, rope=None)), CausalAttention()
    layer.forward(X, (), backend)
    for given, wanted in zip(backend.given[0], layer.qkv.heads(X), strict=True):
        assert torch.equal(given, wanted)


def test_the_backend_is_told_what_the_layer_is() -> None:
    layer = make(AttentionSpec(4, 2, 6, 0.5, window=7, softcap=9.0, sinks=True, causal=False)).layer
    assert (layer.index, layer.num_heads, layer.num_kv_heads, layer.key_dim, layer.value_dim) == (3, 4, 2, 6, 6)
    assert (layer.scale, layer.window, layer.softcap, layer.causal) == (0.5, 7, 9.0, False)
    assert layer.sinks is not None
    assert layer.sinks.shape == (4,)
