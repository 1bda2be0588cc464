"""Tests of banyan.attention.cpu."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from banyan.attention.cpu import CpuAttention
from tests.unit.attention.batches import make_layer, make_world

SINKS = torch.tensor([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0])
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "window": {"window": 5},
    "window of one": {"window": 1},
    "soft cap": {"softcap": 0.7},
    "sinks": {"sinks": SINKS},
    "all": {"window": 7, "softcap": 0.7, "sinks": SINKS},
    "one head each": {"num_kv_heads": 6},
    "one head for all": {"num_kv_heads": 1},
    "latent": {"num_kv_heads": 1, "key_dim": 12, "value_dim": 7},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("prefixes", "lengths"),
    [
        ([0, 0, 0], [5, 1, 12]),  # new prompts
        ([3, 30, 0, 8, 9], [1, 1, 1, 1, 1]),  # decoding
        ([0, 6, 17, 40, 4], [9, 5, 1, 1, 5]),  # all kinds of rows
        ([], []),  # nothing
    ],
)
def test_it_is_the_reference(kind: str, prefixes: list[int], lengths: list[int]) -> None:
    world = make_world(prefixes, lengths, make_layer(**KINDS[kind]))
    torch.testing.assert_close(world.run("cpu"), world.run("reference"))


@given(
    rows=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), min_size=1, max_size=12),
    kind=st.sampled_from(sorted(KINDS)),
    seed=st.integers(0, 1000),
)
@settings(max_examples=40, deadline=None)
def test_it_is_the_reference_on_any_batch(rows: list[tuple[int, int]], kind: str, seed: int) -> None:
    prefixes, lengths = [prefix for prefix, _ in rows], [length for _, length in rows]
    world = make_world(prefixes, lengths, make_layer(**KINDS[kind]), seed)
    torch.testing.assert_close(world.run("cpu"), world.run("reference"))


@pytest.mark.parametrize("kind", ["plain", "window", "all"])
def test_long_rows_are_cut(kind: str) -> None:
    world = make_world([3, 0], [600, 257], make_layer(**KINDS[kind]))
    torch.testing.assert_close(world.run("cpu"), world.run("reference"))


def test_an_encoder_sees_all_of_its_row() -> None:
    world = make_world([0, 0, 0], [300, 7, 7], make_layer(causal=False))
    found = world.run("cpu")
    torch.testing.assert_close(found, world.run("reference"))
    assert not torch.allclose(found, make_world([0, 0, 0], [300, 7, 7], make_layer()).run("cpu"))


def test_many_short_rows_and_few_long_ones() -> None:
    """Rows of very different lengths are not padded to the longest."""
    rng = np.random.default_rng(1)
    prefixes = [*rng.integers(0, 9, 60).tolist(), 700, 750]
    world = make_world(prefixes, [1] * len(prefixes), make_layer())
    torch.testing.assert_close(world.run("cpu"), world.run("reference"))


@pytest.mark.parametrize("kind", ["plain", "all", "latent"])
def test_half_precision(kind: str) -> None:
    world = make_world([9, 0], [1, 14], make_layer(**KINDS[kind]), dtype=torch.bfloat16)
    found = world.run("cpu")
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, world.run("reference"), rtol=2e-2, atol=2e-2)


def test_layers_with_different_windows_share_a_plan() -> None:
    narrow, wide = (make_world([9, 2], [4, 1], make_layer(window=window)) for window in (3, 0))
    backend = CpuAttention(narrow.pool)
    backend.plan(narrow.batch)
    for world in (narrow, wide, narrow):
        found = backend.run(narrow.q, narrow.k, narrow.v, world.layer)
        torch.testing.assert_close(found, world.run("reference"))


def test_it_must_be_planned() -> None:
    world = make_world([0], [2], make_layer())
    with pytest.raises(RuntimeError, match="before plan"):
        CpuAttention(world.pool).run(world.q, world.k, world.v, world.layer)
