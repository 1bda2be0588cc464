"""Tests of banyan.layers.linear."""

import pytest
import torch

from banyan.layers.linear import Linear, MergedLinear, QKVLinear
from banyan.layers.parameter import slots
from tests.unit.layers.stubs import PLACE, fill


@pytest.mark.parametrize("bias", [False, True])
def test_a_linear_projects(bias: bool) -> None:
    layer = Linear(4, 3, bias=bias, place=PLACE)
    fill(layer)
    x = torch.randn(5, 4)
    wanted = x @ layer.weight.T + (0 if layer.bias is None else layer.bias)
    torch.testing.assert_close(layer.forward(x), wanted)
    assert ("bias" in dict(slots(layer))) is bias


def test_a_merged_linear_is_its_parts_side_by_side() -> None:
    layer = MergedLinear(4, (3, 2), bias=True, place=PLACE)
    parts = [Linear(4, size, bias=True, place=PLACE) for size in (3, 2)]
    merged = dict(slots(layer))
    for number, part in enumerate(parts):
        fill(part, seed=number)
        for name, slot in slots(part):
            merged[name].region(number, None).copy_(slot.tensor)
    x = torch.randn(5, 4)
    torch.testing.assert_close(layer.forward(x), torch.cat([part.forward(x) for part in parts], dim=-1))


def test_queries_keys_and_values_come_by_head() -> None:
    layer = QKVLinear(8, 4, 2, 6, bias=False, place=PLACE)
    fill(layer)
    x = torch.randn(5, 8)
    q, k, v = layer.heads(x)
    assert (q.shape, k.shape, v.shape) == ((5, 4, 6), (5, 2, 6), (5, 2, 6))
    weight = layer.weight
    torch.testing.assert_close(q[:, 1], x @ weight[6:12].T)
    torch.testing.assert_close(k[:, 1], x @ weight[4 * 6 + 6 : 4 * 6 + 12].T)
    torch.testing.assert_close(v[:, 0], x @ weight[6 * 6 : 6 * 6 + 6].T)
