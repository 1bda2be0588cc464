"""Qwen 2, 2.5 and 3, dense and with experts."""

from banyan.config.architecture import Architecture
from banyan.models.names import Family, Names, attention, experts, head_norms, layer_norms, mlp, outer
from banyan.models.spec import decoder_spec


def names(shape: Architecture) -> Names:
    """Name the tensors. A layer has either one block or experts, and only some versions have norms of heads."""
    del shape
    return {**outer(), **layer_norms(), **attention(), **head_norms(), **mlp(), **experts()}


FAMILY = Family(decoder_spec, names)
