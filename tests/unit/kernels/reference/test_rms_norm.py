"""Tests of banyan.kernels.reference.rms_norm."""

import pytest
import torch
from torch.nn import functional

from banyan.kernels.reference.rms_norm import rms_norm


@pytest.mark.parametrize("shape", [(1, 8), (7, 64), (3, 4, 16), (0, 8)])
@pytest.mark.parametrize("plus_one", [False, True])
def test_it_is_torchs_own(shape: tuple[int, ...], plus_one: bool) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(shape) * 3, torch.randn(shape[-1])
    wanted = functional.rms_norm(x, shape[-1:], weight + 1 if plus_one else weight, 1e-5)
    torch.testing.assert_close(rms_norm(x, weight, 1e-5, plus_one), wanted)


def test_large_half_precision_numbers_do_not_overflow() -> None:
    x = torch.full((1, 64), 3e4, dtype=torch.float16)  # its square is beyond the type
    found = rms_norm(x, torch.ones(64, dtype=torch.float16), 1e-6, plus_one=False)
    assert found.dtype == torch.float16
    torch.testing.assert_close(found, torch.ones_like(x))


def test_gemma_multiplies_before_it_rounds() -> None:
    """One plus a small weight is rounded away in bfloat16, unless the product is formed in float32."""
    x = torch.full((1, 4), 1.0, dtype=torch.bfloat16)
    weight = torch.full((4,), 0.0039, dtype=torch.bfloat16)
    wide = (torch.rsqrt(torch.tensor(1.0)) * (1 + weight.float())).to(torch.bfloat16)
    assert torch.equal(rms_norm(x, weight, 0.0, plus_one=True)[0], wide)
