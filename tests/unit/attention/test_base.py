"""Tests of banyan.attention.base."""

import dataclasses

import pytest

from tests.unit.attention.batches import make_layer


def test_a_layer_that_says_nothing_sees_all_that_came_before() -> None:
    layer = make_layer()
    assert (layer.window, layer.softcap, layer.sinks, layer.causal) == (0, 0.0, None, True)


@pytest.mark.parametrize("field", ["window", "index", "scale"])
def test_a_layer_cannot_change_under_a_plan(field: str) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(make_layer(), field, 3)
