"""Tests of banyan.kernels.reference.clamped_swiglu."""

import math

import torch

from banyan.kernels.reference.clamped_swiglu import clamped_swiglu


def test_gate_is_clamped_above_and_value_on_both_sides() -> None:
    cases = [(0.5, 0.25), (9.0, 9.0), (-9.0, -9.0), (7.0, -7.0)]
    x = torch.tensor([[gate, up] for gate, up in cases])
    wanted = [
        min(gate, 7.0) / (1 + math.exp(-1.702 * min(gate, 7.0))) * (max(-7.0, min(up, 7.0)) + 1) for gate, up in cases
    ]
    torch.testing.assert_close(clamped_swiglu(x, 1.702, 7.0).flatten(), torch.tensor(wanted))
