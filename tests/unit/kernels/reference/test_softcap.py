"""Tests of banyan.kernels.reference.softcap."""

import math

import torch

from banyan.kernels.reference.softcap import softcap


def test_small_values_stay_and_large_ones_bend() -> None:
    x = torch.tensor([-1e6, -30.0, 0.0, 0.01, 30.0, 1e6])
    wanted = torch.tensor([-30.0, -30 * math.tanh(1), 0.0, 0.01, 30 * math.tanh(1), 30.0])
    torch.testing.assert_close(softcap(x, 30.0), wanted)
