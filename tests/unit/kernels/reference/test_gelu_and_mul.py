"""Tests of banyan.kernels.reference.gelu_and_mul."""

import math

import pytest
import torch

from banyan.kernels.reference.gelu_and_mul import gelu_and_mul


@pytest.mark.parametrize("tanh", [False, True])
def test_the_first_half_gates_the_second(tanh: bool) -> None:
    torch.manual_seed(0)
    gate, up = torch.randn(3, 5) * 2, torch.randn(3, 5)
    if tanh:
        share = 0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)))
    else:
        share = 0.5 * (1 + torch.erf(gate / math.sqrt(2)))
    torch.testing.assert_close(gelu_and_mul(torch.cat((gate, up), dim=-1), tanh), gate * share * up)
