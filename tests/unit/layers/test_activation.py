"""Tests of banyan.layers.activation."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from banyan.config.architecture import Activation
from banyan.layers.activation import gated, plain
from tests.unit.layers.stubs import PLACE

X = torch.linspace(-3, 9, 24).view(3, 8)


def oai(gate: Tensor, up: Tensor) -> Tensor:
    """Gate as GPT-OSS does."""
    return gate.clamp(max=5) * torch.sigmoid(1.5 * gate.clamp(max=5)) * (up.clamp(-5, 5) + 1)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("silu", lambda gate, up: functional.silu(gate) * up),
        ("gelu", lambda gate, up: functional.gelu(gate) * up),
        ("gelu_tanh", lambda gate, up: functional.gelu(gate, approximate="tanh") * up),
        ("clamped_swiglu", oai),
    ],
)
def test_gates(name: Activation, wanted: Any) -> None:
    activate = gated(name, PLACE, alpha=1.5, limit=5.0)
    torch.testing.assert_close(activate(X), wanted(X[:, :4], X[:, 4:]))


def test_encoders_do_not_gate() -> None:
    torch.testing.assert_close(plain("gelu", PLACE)(X), functional.gelu(X))
    torch.testing.assert_close(plain("gelu_tanh", PLACE)(X), functional.gelu(X, approximate="tanh"))
    with pytest.raises(ValueError, match="no ungated silu"):
        plain("silu", PLACE)
