"""Phi-3: its checkpoints have queries, keys and values in one tensor, and gate and value in another."""

from banyan.config.architecture import Architecture
from banyan.models.names import Family, Names, layer_norms, module, outer
from banyan.models.spec import decoder_spec


def names(shape: Architecture) -> Names:
    """Name the tensors."""
    del shape
    return {
        **outer(),
        **layer_norms(),
        **module("layers.{i}.attn.qkv", "layers.{i}.self_attn.qkv_proj", "blk.{i}.attn_qkv"),
        **module("layers.{i}.attn.o", "layers.{i}.self_attn.o_proj", "blk.{i}.attn_output"),
        **module("layers.{i}.mlp.gate_up", "layers.{i}.mlp.gate_up_proj", "blk.{i}.ffn_up"),
        **module("layers.{i}.mlp.down", "layers.{i}.mlp.down_proj", "blk.{i}.ffn_down"),
    }


FAMILY = Family(decoder_spec, names)
