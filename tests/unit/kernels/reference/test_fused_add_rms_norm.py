"""Tests of banyan.kernels.reference.fused_add_rms_norm."""

import pytest
import torch
from torch.nn import functional

from banyan.kernels.reference.fused_add_rms_norm import fused_add_rms_norm


@pytest.mark.parametrize("plus_one", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_normalises_the_sum_and_returns_both(plus_one: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, residual, weight = torch.randn(5, 32).to(dtype), torch.randn(5, 32).to(dtype), torch.randn(32).to(dtype)
    before = x.clone(), residual.clone()
    normed, total = fused_add_rms_norm(x, residual, weight, 1e-5, plus_one)
    assert torch.equal(total, before[0] + before[1])
    wide = functional.rms_norm(total.float(), (32,), weight.float() + plus_one, 1e-5)
    torch.testing.assert_close(normed, wide.to(dtype), rtol=2e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-5)
    assert torch.equal(x, before[0])
    assert torch.equal(residual, before[1])
