"""Tests of banyan.layers.norm."""

import pytest
import torch
from torch.nn import functional

from banyan.layers.norm import LayerNorm, RMSNorm
from tests.unit.layers.stubs import PLACE, fill


@pytest.mark.parametrize("plus_one", [False, True])
def test_rms_norm_alone_and_behind_a_residual(plus_one: bool) -> None:
    layer = RMSNorm(8, eps=1e-3, plus_one=plus_one, place=PLACE)
    fill(layer)
    x, residual = torch.randn(4, 8) * 0.01, torch.randn(4, 8) * 0.01  # small: eps counts
    weight = layer.weight + plus_one
    torch.testing.assert_close(layer.forward(x), functional.rms_norm(x, (8,), weight, 1e-3))
    normed, total = layer.add(x, residual)
    torch.testing.assert_close(total, x + residual)
    torch.testing.assert_close(normed, functional.rms_norm(x + residual, (8,), weight, 1e-3))


def test_layer_norm() -> None:
    layer = LayerNorm(8, eps=1e-3, place=PLACE)
    fill(layer)
    x = torch.randn(4, 8) * 0.01
    torch.testing.assert_close(layer.forward(x), functional.layer_norm(x, (8,), layer.weight, layer.bias, 1e-3))
