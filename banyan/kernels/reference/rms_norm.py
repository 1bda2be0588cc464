"""rms_norm: divide by the root mean square."""

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float, plus_one: bool) -> Tensor:
    """Divide by the root mean square, multiply by the weight (or one plus it).

    The division is in float32. Gemma also multiplies in float32, others in the dtype of x: checkpoints were trained
    with the one or the other, and in bfloat16 it shows.
    """
    wide = x.float()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    if plus_one:
        return (wide * (1.0 + weight.float())).to(x.dtype)
    return wide.to(x.dtype) * weight
