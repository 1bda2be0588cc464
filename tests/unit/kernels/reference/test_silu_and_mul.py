"""Tests of banyan.kernels.reference.silu_and_mul."""

import torch

from banyan.kernels.reference.silu_and_mul import silu_and_mul


def test_the_first_half_gates_the_second() -> None:
    torch.manual_seed(0)
    gate, up = torch.randn(3, 5), torch.randn(3, 5)
    torch.testing.assert_close(silu_and_mul(torch.cat((gate, up), dim=-1)), gate / (1 + torch.exp(-gate)) * up)
