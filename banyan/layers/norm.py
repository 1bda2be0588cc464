"""RMSNorm, with the residual addition fused, and LayerNorm."""

from torch import Tensor

from banyan.kernels import ops
from banyan.kernels.registry import op
from banyan.layers.parameter import Layer, Place


class RMSNorm(Layer):
    """Division by the root mean square."""

    def __init__(self, dim: int, *, eps: float, plus_one: bool, place: Place) -> None:
        super().__init__()
        self._norm: ops.RmsNorm = op("rms_norm", place.device)
        self._add_norm: ops.FusedAddRmsNorm = op("fused_add_rms_norm", place.device)
        self._eps = eps
        self._plus_one = plus_one
        self.weight = place.parameter(dim)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dimension."""
        return self._norm(x, self.weight, self._eps, self._plus_one)

    def add(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """Return the normalised sum, and the sum as the next residual."""
        return self._add_norm(x, residual, self.weight, self._eps, self._plus_one)


class LayerNorm(Layer):
    """Mean 0 and variance 1."""

    def __init__(self, dim: int, *, eps: float, place: Place) -> None:
        super().__init__()
        self._norm: ops.LayerNorm = op("layer_norm", place.device)
        self._eps = eps
        self.weight = place.parameter(dim)
        self.bias = place.parameter(dim)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dimension."""
        return self._norm(x, self.weight, self.bias, self._eps)
