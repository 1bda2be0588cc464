"""softcap: bend values so that none passes a cap."""

import torch
from torch import Tensor


def softcap(x: Tensor, cap: float) -> Tensor:
    """Return cap * tanh(x / cap)."""
    return cap * torch.tanh(x / cap)
