"""silu_and_mul: multiply the second half by the SiLU of the first."""

from torch import Tensor
from torch.nn import functional


def silu_and_mul(x: Tensor) -> Tensor:
    """Multiply the second half by the SiLU of the first."""
    gate, up = x.chunk(2, dim=-1)
    return functional.silu(gate) * up
