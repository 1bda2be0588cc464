"""Tests of banyan.kernels.ops."""

import inspect

import pytest
import torch

from banyan.kernels import ops
from banyan.kernels.registry import OPS, op


def protocol(name: str) -> type:
    """Return the signature that goes with an op."""
    camel = "".join(word.capitalize() for word in name.split("_"))
    found = getattr(ops, {"StoreKv": "StoreKV"}.get(camel, camel))
    assert isinstance(found, type)
    return found


@pytest.mark.parametrize("name", OPS)
def test_an_op_has_the_signature_that_is_promised(name: str) -> None:
    promised = list(inspect.signature(protocol(name).__call__).parameters.values())[1:]
    actual = list(inspect.signature(op(name, torch.device("cpu"))).parameters.values())
    assert [(p.name, p.kind) for p in actual] == [(p.name, p.kind) for p in promised]
