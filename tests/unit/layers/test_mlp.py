"""Tests of banyan.layers.mlp."""

import torch
from torch.nn import functional

from banyan.layers.mlp import MLP, GatedMLP
from tests.unit.layers.stubs import PLACE, fill


def test_a_gated_block() -> None:
    layer = GatedMLP(6, 4, "silu", bias=True, place=PLACE)
    fill(layer)
    x = torch.randn(3, 6)
    gate_up, down = layer.gate_up, layer.down
    assert gate_up.bias is not None
    gate = functional.linear(x, gate_up.weight[:4], gate_up.bias[:4])
    up = functional.linear(x, gate_up.weight[4:], gate_up.bias[4:])
    wanted = functional.linear(functional.silu(gate) * up, down.weight, down.bias)
    torch.testing.assert_close(layer.forward(x), wanted)


def test_a_plain_block() -> None:
    layer = MLP(6, 4, "gelu", bias=True, place=PLACE)
    fill(layer)
    x = torch.randn(3, 6)
    inner = functional.gelu(functional.linear(x, layer.up.weight, layer.up.bias))
    torch.testing.assert_close(layer.forward(x), functional.linear(inner, layer.down.weight, layer.down.bias))
