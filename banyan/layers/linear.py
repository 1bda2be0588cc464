"""Linear, MergedLinear and QKVLinear: several projections of one input are one multiplication."""

from torch import Tensor

from banyan.kernels import ops
from banyan.kernels.registry import op
from banyan.layers.parameter import Layer, Parts, Place


class Linear(Layer):
    """A projection."""

    def __init__(self, in_size: int, out_size: int, *, bias: bool, place: Place) -> None:
        super().__init__()
        self._linear: ops.Linear = op("linear", place.device)
        self.weight = place.parameter(out_size, in_size)
        self.bias = place.parameter(out_size) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Project x [n, in] -> [n, out]."""
        return self._linear(x, self.weight, self.bias)


class MergedLinear(Linear):
    """Projections of the same input, their outputs behind one another."""

    def __init__(self, in_size: int, out_sizes: tuple[int, ...], *, bias: bool, place: Place) -> None:
        super().__init__(in_size, sum(out_sizes), bias=bias, place=place)
        self.parts = {"weight": Parts(0, out_sizes), "bias": Parts(0, out_sizes)}


class QKVLinear(MergedLinear):
    """The projections to queries, keys and values."""

    def __init__(
        self, in_size: int, num_heads: int, num_kv_heads: int, head_dim: int, *, bias: bool, place: Place
    ) -> None:
        sizes = (num_heads * head_dim, num_kv_heads * head_dim, num_kv_heads * head_dim)
        super().__init__(in_size, sizes, bias=bias, place=place)
        self._sizes = sizes
        self._q_shape, self._kv_shape = (num_heads, head_dim), (num_kv_heads, head_dim)

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Project x [n, in] -> q [n, heads, dim], k and v [n, kv_heads, dim]."""
        q, k, v = self.forward(x).split_with_sizes(self._sizes, dim=-1)
        # Sizes are spelled out: an idle step has no tokens, and nothing can be inferred from them.
        kv_shape = (x.shape[0], *self._kv_shape)
        return q.reshape(x.shape[0], *self._q_shape), k.reshape(kv_shape), v.reshape(kv_shape)
