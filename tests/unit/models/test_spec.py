"""Tests of banyan.models.spec."""

import pytest

from banyan.layers.attention import AttentionSpec
from banyan.layers.mla import MLASpec
from banyan.models.spec import MLPSpec, MoESpec, decoder_spec, encoder_spec
from tests.unit.models.checkpoints import make_shape


def attention(spec: AttentionSpec | MLASpec) -> AttentionSpec:
    """Take the plain kind."""
    assert isinstance(spec, AttentionSpec)
    return spec


def test_windows_and_rotary_embeddings_go_by_layer() -> None:
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    spec = decoder_spec(make_shape("gemma3", layer_types=kinds, sliding_window=9, rope_theta=5e5))
    layers = [attention(layer.attention) for layer in spec.layers]
    assert [layer.window for layer in layers] == [9, 0, 9]
    assert [layer.rope for layer in layers] == [1, 0, 1]
    assert [rope.theta for rope in spec.ropes] == [5e5, 1e4]


def test_layers_without_a_local_embedding_share_one() -> None:
    spec = decoder_spec(make_shape("gemma2", sliding_window=9))
    assert [attention(layer.attention).window for layer in spec.layers] == [9, 0, 9]
    assert {attention(layer.attention).rope for layer in spec.layers} == {0}


def test_experts_go_by_layer() -> None:
    spec = decoder_spec(make_shape("deepseek_v2"))
    assert [type(layer.mlp) for layer in spec.layers] == [MLPSpec, MoESpec, MoESpec]
    assert {type(layer.attention) for layer in spec.layers} == {MLASpec}


def test_what_a_token_leaves_in_the_cache() -> None:
    plain, latent = decoder_spec(make_shape("llama")), decoder_spec(make_shape("deepseek_v3"))
    assert (plain.kv_heads, plain.key_dim, plain.value_dim, plain.latent) == (2, 8, 8, False)
    assert (latent.kv_heads, latent.key_dim, latent.value_dim, latent.latent) == (1, 8, 6, True)


def test_an_encoder_looks_both_ways() -> None:
    spec = encoder_spec(make_shape("bert"))
    assert not spec.attention.causal
    assert spec.attention.rope is None
    assert (spec.kv_heads, spec.key_dim) == (4, 4)


def test_families_are_not_mixed_up() -> None:
    with pytest.raises(ValueError, match="no rotary embedding"):
        decoder_spec(make_shape("bert"))
    with pytest.raises(ValueError, match="no encoder"):
        encoder_spec(make_shape("llama"))
