"""Mixtral: Mistral with experts. GGUF calls it llama, and orders its queries and keys so."""

from banyan.config.architecture import Architecture
from banyan.models.names import Family, Names, attention, experts, layer_norms, outer, unpaired
from banyan.models.spec import decoder_spec


def names(shape: Architecture) -> Names:
    """Name the tensors."""
    return {
        **outer(),
        **layer_norms(),
        **attention(unpaired(shape.num_heads), unpaired(shape.num_kv_heads)),
        **experts("block_sparse_moe", gate="w1", up="w3", down="w2"),
    }


FAMILY = Family(decoder_spec, names)
