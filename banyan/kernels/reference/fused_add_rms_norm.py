"""fused_add_rms_norm: add the residual, then divide by the root mean square."""

import torch
from torch import Tensor


def fused_add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float, plus_one: bool
) -> tuple[Tensor, Tensor]:
    """Return the normalised sum and the sum."""
    total = x + residual
    wide = total.float()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    if plus_one:
        return (wide * (1.0 + weight.float())).to(x.dtype), total
    return wide.to(x.dtype) * weight, total
