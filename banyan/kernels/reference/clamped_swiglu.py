"""clamped_swiglu: the gate of GPT-OSS."""

import torch
from torch import Tensor


def clamped_swiglu(x: Tensor, alpha: float, limit: float) -> Tensor:
    """Gate with x * sigmoid(alpha * x), all clamped to the limit, and one added to what is gated."""
    gate, up = x.chunk(2, dim=-1)
    gate = gate.clamp(max=limit)
    up = up.clamp(min=-limit, max=limit)
    return gate * torch.sigmoid(alpha * gate) * (up + 1)
