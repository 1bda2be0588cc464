"""Tests of banyan.layers.rope."""

import math

import pytest
import torch
from torch import Tensor

from banyan.config.rope import RopeCard
from banyan.layers.parameter import Place
from banyan.layers.rope import RotaryEmbedding, inverse_frequencies
from tests.unit.layers.stubs import PLACE

DEFAULT = RopeCard(theta=10_000.0, rotary_dim=16)
POSITIONS = torch.tensor([0, 1, 7, 100])


def turns(card: RopeCard, positions: Tensor = POSITIONS, context_length: int = 4096) -> Tensor:
    """Return how far positions turn, as angles between -pi and pi."""
    cos, sin = RotaryEmbedding(card, context_length, PLACE).forward(positions)
    return torch.atan2(sin, cos)


def folded(angles: Tensor) -> Tensor:
    """Bring angles between -pi and pi."""
    return torch.atan2(angles.sin(), angles.cos())


def test_the_default_turns_slower_with_each_pair() -> None:
    wanted = torch.tensor([[p * 10_000.0 ** (-2 * i / 16) for i in range(8)] for p in POSITIONS.tolist()])
    torch.testing.assert_close(turns(DEFAULT), folded(wanted), rtol=0, atol=1e-4)


def test_linear_scaling_stretches_positions() -> None:
    card = RopeCard(theta=10_000.0, rotary_dim=16, kind="linear", factor=4.0)
    torch.testing.assert_close(turns(card, POSITIONS * 4), turns(DEFAULT), rtol=0, atol=1e-4)


def test_llama3_keeps_fast_pairs_stretches_slow_ones_and_mixes_between() -> None:
    card = RopeCard(
        theta=10_000.0,
        rotary_dim=64,
        kind="llama3",
        factor=8.0,
        original_length=256,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
    )
    plain, found = inverse_frequencies(RopeCard(theta=10_000.0, rotary_dim=64), 1), inverse_frequencies(card, 1)
    wavelengths = 2 * math.pi / plain
    fast, slow = wavelengths < 256 / 4, wavelengths > 256
    torch.testing.assert_close(found[fast], plain[fast])
    torch.testing.assert_close(found[slow], plain[slow] / 8)
    between = (found / plain)[~fast & ~slow]
    assert 0 < len(between) < 32
    assert ((between > 1 / 8) & (between < 1)).all()
    assert (found.diff() < 0).all()


@pytest.mark.parametrize("truncate", [False, True])
def test_yarn_keeps_the_first_pairs_stretches_the_last_and_mixes_between(truncate: bool) -> None:
    card = RopeCard(
        theta=10_000.0,
        rotary_dim=64,
        kind="yarn",
        factor=8.0,
        original_length=1024,
        attention_factor=1.3,
        truncate=truncate,
    )
    plain, found = inverse_frequencies(RopeCard(theta=10_000.0, rotary_dim=64), 1), inverse_frequencies(card, 1)
    # The pair that turns n times over the original length: 1024 / (2 pi n) = theta ** (pair / 32)
    low, high = (32 * math.log(1024 / (2 * math.pi * n)) / math.log(10_000) for n in (32, 1))
    low, high = (math.floor(low), math.ceil(high)) if truncate else (low, high)
    stretched = ((torch.arange(32) - low) / (high - low)).clamp(0, 1)
    torch.testing.assert_close(found, plain * (1 - stretched + stretched / 8))
    cos, sin = RotaryEmbedding(card, 1, PLACE).forward(POSITIONS)
    torch.testing.assert_close(cos.square() + sin.square(), torch.full_like(cos, 1.3**2))


def test_longrope_takes_the_factors_of_the_engines_context() -> None:
    card = RopeCard(
        theta=10_000.0,
        rotary_dim=4,
        kind="longrope",
        original_length=512,
        short_factors=(1.0, 2.0),
        long_factors=(3.0, 5.0),
    )
    plain = torch.tensor([1.0, 0.01])
    torch.testing.assert_close(inverse_frequencies(card, 512), plain / torch.tensor([1.0, 2.0]))
    torch.testing.assert_close(inverse_frequencies(card, 513), plain / torch.tensor([3.0, 5.0]))


def test_dynamic_stretches_a_position_by_its_own_length() -> None:
    card = RopeCard(theta=10_000.0, rotary_dim=16, kind="dynamic", factor=2.0, original_length=64)
    near = torch.arange(64)
    torch.testing.assert_close(turns(card, near), turns(DEFAULT, near), rtol=0, atol=1e-4)
    base = 10_000.0 * (2.0 * 151 / 64 - 1) ** (16 / 14)
    wanted = torch.tensor([[150 * base ** (-2 * i / 16) for i in range(8)]])
    torch.testing.assert_close(turns(card, torch.tensor([150])), folded(wanted), rtol=0, atol=1e-4)


def test_angles_have_the_models_type() -> None:
    cos, sin = RotaryEmbedding(DEFAULT, 1, Place(torch.device("cpu"), torch.bfloat16)).forward(POSITIONS)
    assert cos.dtype == sin.dtype == torch.bfloat16
