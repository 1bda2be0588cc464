"""Llama and Mistral, which differ in their configs alone."""

from banyan.config.architecture import Architecture
from banyan.models.names import Family, Names, attention, layer_norms, mlp, outer, unpaired
from banyan.models.spec import decoder_spec


def names(shape: Architecture) -> Names:
    """Name the tensors."""
    return {**outer(), **layer_norms(), **attention(unpaired(shape.num_heads), unpaired(shape.num_kv_heads)), **mlp()}


FAMILY = Family(decoder_spec, names)
