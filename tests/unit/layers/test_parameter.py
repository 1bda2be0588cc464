"""Tests of banyan.layers.parameter."""

import pytest
import torch
from torch import nn

from banyan.layers.linear import Linear, MergedLinear
from banyan.layers.parameter import Parts, Slot, slots
from tests.unit.layers.stubs import PLACE


def test_parameters_want_no_gradient() -> None:
    parameter = PLACE.parameter(2, 3)
    assert parameter.shape == (2, 3)
    assert not parameter.requires_grad
    assert PLACE._replace(dtype=torch.bfloat16).wide().parameter(1).dtype == torch.float32


def test_a_region_is_a_view_of_the_whole_or_of_a_part() -> None:
    tensor = torch.arange(10.0).view(5, 2)
    slot = Slot(tensor, Parts(0, (1, 3, 1)))
    assert torch.equal(slot.region(None, None), tensor)
    assert slot.region(1, None).tolist() == [[2, 3], [4, 5], [6, 7]]
    slot.region(2, None).fill_(-1)
    assert tensor[4].tolist() == [-1, -1]


def test_a_region_of_an_expert() -> None:
    tensor = torch.arange(24.0).view(3, 4, 2)
    slot = Slot(tensor, Parts(1, (2, 2)))
    assert torch.equal(slot.region(None, 2), tensor[2])
    assert torch.equal(slot.region(1, 2), tensor[2, 2:])
    assert torch.equal(slot.region(1, None), tensor[:, 2:])


def test_what_has_no_parts_cannot_give_one() -> None:
    with pytest.raises(ValueError, match="no parts"):
        Slot(torch.zeros(2), None).region(0, None)


def test_every_parameter_is_listed_once_with_its_parts() -> None:
    plain, merged = Linear(2, 3, bias=True, place=PLACE), MergedLinear(2, (1, 2), bias=True, place=PLACE)
    found = dict(slots(nn.ModuleDict({"a": plain, "b": merged, "again": plain})))
    assert {path: slot.parts for path, slot in found.items()} == {
        "a.weight": None,
        "a.bias": None,
        "b.weight": Parts(0, (1, 2)),
        "b.bias": Parts(0, (1, 2)),
    }
    assert found["b.weight"].tensor is merged.weight
