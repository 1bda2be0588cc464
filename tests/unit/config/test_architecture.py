"""Tests of banyan.config.architecture."""

import msgspec

from banyan.config.architecture import Architecture, MLACard
from banyan.config.rope import RopeCard

SHAPE = Architecture(
    family="llama",
    vocab_size=100,
    num_positions=64,
    hidden_size=8,
    num_layers=3,
    num_heads=4,
    num_kv_heads=2,
    head_dim=5,
    intermediate_size=9,
    attn_scale=0.5,
    norm_eps=1e-6,
    rope=RopeCard(theta=1e4, rotary_dim=4, long_factors=(1.0, 2.0)),
)


def test_what_a_token_leaves_in_the_cache() -> None:
    assert SHAPE.kv_numbers_per_token() == 3 * 2 * 2 * 5
    mla = MLACard(q_rank=0, kv_rank=7, nope_dim=3, rope_dim=2, value_dim=4)
    assert msgspec.structs.replace(SHAPE, mla=mla).kv_numbers_per_token() == 3 * (7 + 2)


def test_it_can_be_handed_to_another_process() -> None:
    assert msgspec.json.decode(msgspec.json.encode(SHAPE), type=Architecture) == SHAPE
