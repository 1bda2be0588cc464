"""Tests of banyan.kernels.reference.linear."""

import pytest
import torch

from banyan.kernels.reference.linear import linear


@pytest.mark.parametrize("biased", [False, True])
def test_it_multiplies_and_adds(biased: bool) -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(5, 3), torch.randn(4, 3), torch.randn(4) if biased else None
    wanted = [[sum(a * b for a, b in zip(row, out, strict=True)) for out in weight.tolist()] for row in x.tolist()]
    expected = torch.tensor(wanted) + (0 if bias is None else bias)
    torch.testing.assert_close(linear(x, weight, bias), expected)
