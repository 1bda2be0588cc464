"""gelu_and_mul: multiply the second half by the GELU of the first."""

from torch import Tensor
from torch.nn import functional


def gelu_and_mul(x: Tensor, tanh: bool) -> Tensor:
    """Multiply the second half by the GELU of the first, exact or in its tanh form."""
    gate, up = x.chunk(2, dim=-1)
    return functional.gelu(gate, approximate="tanh" if tanh else "none") * up
