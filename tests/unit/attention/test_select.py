"""Tests of banyan.attention.select."""

import pytest
import torch

from banyan.attention.base import AttentionBackend
from banyan.attention.cpu import CpuAttention
from banyan.attention.reference import ReferenceAttention
from banyan.attention.select import make_backend
from tests.unit.attention.batches import CPU, make_layer, make_world


@pytest.mark.parametrize(
    ("name", "device", "kind"),
    [
        ("cpu", "cpu", CpuAttention),
        ("reference", "cpu", ReferenceAttention),
        ("auto", "cpu", CpuAttention),
        ("auto", "meta", ReferenceAttention),
    ],
)
def test_a_backend_by_its_name(name: str, device: str, kind: type[AttentionBackend]) -> None:
    pool = make_world([0], [1], make_layer()).pool
    assert type(make_backend(name, pool, torch.device(device))) is kind


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    pool = make_world([0], [1], make_layer()).pool
    with pytest.raises(KeyError, match="no attention backend 'flash'; there are cpu, reference"):
        make_backend("flash", pool, CPU)
