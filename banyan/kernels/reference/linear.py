"""linear: multiply by a weight and add a bias."""

from torch import Tensor
from torch.nn import functional


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Multiply and add."""
    return functional.linear(x, weight, bias)
