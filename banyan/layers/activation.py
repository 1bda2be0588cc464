"""The non-linear functions of feed-forward blocks, by name."""

from functools import partial

from banyan.config.architecture import Activation
from banyan.kernels import ops
from banyan.kernels.registry import op
from banyan.layers.parameter import Place


def gated(name: Activation, place: Place, *, alpha: float = 0.0, limit: float = 0.0) -> ops.Activate:
    """Return a function of [..., 2 * dim] that multiplies the second half by the activation of the first."""
    if name == "silu":
        silu: ops.SiluAndMul = op("silu_and_mul", place.device)
        return silu
    if name == "clamped_swiglu":
        clamped: ops.ClampedSwiglu = op("clamped_swiglu", place.device)
        return partial(clamped, alpha=alpha, limit=limit)
    gelu: ops.GeluAndMul = op("gelu_and_mul", place.device)
    return partial(gelu, tanh=name == "gelu_tanh")


def plain(name: Activation, place: Place) -> ops.Activate:
    """Return a function of [..., dim] that applies the activation to each number."""
    if name not in ("gelu", "gelu_tanh"):
        raise ValueError(f"there is no ungated {name} activation")
    gelu: ops.Gelu = op("gelu", place.device)
    return partial(gelu, tanh=name == "gelu_tanh")
