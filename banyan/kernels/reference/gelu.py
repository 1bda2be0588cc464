"""gelu: the Gaussian error linear unit, exact or in its tanh form."""

from torch import Tensor
from torch.nn import functional


def gelu(x: Tensor, tanh: bool) -> Tensor:
    """Multiply by the normal distribution's share below."""
    return functional.gelu(x, approximate="tanh" if tanh else "none")
