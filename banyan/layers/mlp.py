"""GatedMLP and MLP: the feed-forward blocks of decoders and of encoders."""

from torch import Tensor

from banyan.config.architecture import Activation
from banyan.layers.activation import gated, plain
from banyan.layers.linear import Linear, MergedLinear
from banyan.layers.parameter import Layer, Place


class GatedMLP(Layer):
    """Gate and value are projected together; the gated value is projected back."""

    def __init__(self, hidden_size: int, inner_size: int, activation: Activation, *, bias: bool, place: Place) -> None:
        super().__init__()
        self.gate_up = MergedLinear(hidden_size, (inner_size, inner_size), bias=bias, place=place)
        self.down = Linear(inner_size, hidden_size, bias=bias, place=place)
        self._activate = gated(activation, place)

    def forward(self, x: Tensor) -> Tensor:
        """Map x [n, hidden] -> [n, hidden]."""
        return self.down.forward(self._activate(self.gate_up.forward(x)))


class MLP(Layer):
    """Up, activate, down."""

    def __init__(self, hidden_size: int, inner_size: int, activation: Activation, *, bias: bool, place: Place) -> None:
        super().__init__()
        self.up = Linear(hidden_size, inner_size, bias=bias, place=place)
        self.down = Linear(inner_size, hidden_size, bias=bias, place=place)
        self._activate = plain(activation, place)

    def forward(self, x: Tensor) -> Tensor:
        """Map x [n, hidden] -> [n, hidden]."""
        return self.down.forward(self._activate(self.up.forward(x)))
