"""Tests of banyan.config.rope."""

import math
from typing import Any

import pytest

from banyan.config.errors import ConfigError
from banyan.config.hf import HfConfig
from banyan.config.rope import RopeCard, attention_mscale, read_rope, stretched_length


def config(longest: int = 1024, **scaling: Any) -> HfConfig:
    """Make a config with a scaling."""
    return HfConfig({"max_position_embeddings": longest, "rope_scaling": scaling})


def test_without_a_scaling_there_is_nothing_but_a_base() -> None:
    rope = read_rope(HfConfig({"max_position_embeddings": 64, "partial_rotary_factor": 0.5}), 16)
    assert rope == RopeCard(theta=10_000.0, rotary_dim=8, original_length=64)


def test_llama3() -> None:
    scaling: dict[str, Any] = {
        "factor": 8.0,
        "low_freq_factor": 2.0,
        "high_freq_factor": 3.0,
        "original_max_position_embeddings": 512,
    }
    rope = read_rope(config(rope_type="llama3", **scaling), 16)
    assert (rope.kind, rope.factor, rope.low_freq_factor, rope.high_freq_factor) == ("llama3", 8.0, 2.0, 3.0)
    assert rope.original_length == 512
    assert stretched_length(rope, 1024) == 1024
    with pytest.raises(ConfigError, match="llama3 has no low_freq_factor"):
        read_rope(config(rope_type="llama3", factor=8.0), 16)


@pytest.mark.parametrize(
    ("more", "attention_factor"),
    [
        ({}, 0.1 * math.log(4) + 1),
        ({"attention_factor": 1.7}, 1.7),
        ({"mscale": 0.7, "mscale_all_dim": 0.9}, (0.07 * math.log(4) + 1) / (0.09 * math.log(4) + 1)),
        ({"mscale": 0.7}, 0.1 * math.log(4) + 1),
    ],
)
def test_yarn(more: dict[str, Any], attention_factor: float) -> None:
    rope = read_rope(config(type="yarn", factor=4.0, original_max_position_embeddings=512, **more), 16)
    assert rope.attention_factor == pytest.approx(attention_factor)
    assert (rope.beta_fast, rope.beta_slow, rope.truncate) == (32.0, 1.0, True)
    assert stretched_length(rope, 512) == stretched_length(rope, 2048) == 2048


def test_yarn_may_leave_its_factor_to_the_lengths() -> None:
    assert read_rope(config(4096, type="yarn", original_max_position_embeddings=512), 16).factor == 8.0


def test_longrope() -> None:
    config = HfConfig(
        {
            "max_position_embeddings": 4096,
            "original_max_position_embeddings": 512,
            "rope_scaling": {"type": "su", "short_factor": [1.0, 1.0], "long_factor": [1.0, 2.0]},
        }
    )
    rope = read_rope(config, 4)
    assert (rope.kind, rope.original_length, rope.long_factors) == ("longrope", 512, (1.0, 2.0))
    assert rope.attention_factor == pytest.approx(math.sqrt(1 + math.log(8) / math.log(512)))
    assert stretched_length(rope, 4096) == 4096


@pytest.mark.parametrize("kind", ["linear", "dynamic"])
def test_a_factor_makes_the_context_longer(kind: str) -> None:
    rope = read_rope(config(type=kind, factor=2.5), 16)
    assert (rope.original_length, stretched_length(rope, 1024)) == (1024, 2560)
    with pytest.raises(ConfigError, match=f"{kind} has no factor"):
        read_rope(config(type=kind), 16)


def test_an_unknown_scaling_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ConfigError, match="'wild' is not known; known are default, linear, dynamic, yarn"):
        read_rope(config(type="wild"), 16)


def test_deepseek_sharpens_attention_when_it_is_stretched() -> None:
    stretched = config(type="yarn", factor=40.0, mscale_all_dim=0.5)
    assert attention_mscale(stretched) == pytest.approx((0.05 * math.log(40) + 1) ** 2)
    assert attention_mscale(config(type="yarn", factor=40.0)) == 1.0
    assert attention_mscale(HfConfig({})) == 1.0
