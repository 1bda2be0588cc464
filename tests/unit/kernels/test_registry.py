"""Tests of banyan.kernels.registry."""

from pathlib import Path

import pytest
import torch

import banyan.kernels
from banyan.kernels.reference.rms_norm import rms_norm
from banyan.kernels.registry import OPS, op


@pytest.mark.parametrize("name", OPS)
def test_every_op_has_a_reference_for_any_device(name: str) -> None:
    assert callable(op(name, torch.device("meta")))


def test_the_table_lists_every_file() -> None:
    folder = Path(banyan.kernels.__path__[0])
    files = {(path.parent.name, path.stem) for path in folder.glob("*/*.py")}
    listed = {(place, name) for name, places in OPS.items() for place in ("reference", *places)}
    assert {(place, name) for place, name in files if name != "__init__"} == listed


def test_without_one_of_its_own_a_device_gets_the_reference() -> None:
    assert op("rms_norm", torch.device("meta")) is rms_norm


def test_an_unknown_op_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(KeyError, match=r"no op 'rms'; there are .*rms_norm"):
        op("rms", torch.device("cpu"))
