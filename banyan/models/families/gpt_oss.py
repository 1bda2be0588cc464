"""GPT-OSS: sinks, biases everywhere, and experts whose gates and values alternate."""

import torch
from torch import Tensor

from banyan.config.architecture import Architecture
from banyan.models.names import Entry, Family, Names, Source, attention, layer_norms, module, outer, tensor
from banyan.models.spec import decoder_spec


def names(shape: Architecture) -> Names:
    """Name the tensors."""
    del shape
    hf, path = "layers.{i}.mlp.experts", "layers.{i}.mlp.experts"
    gates = ("blk.{i}.ffn_gate_exps", "blk.{i}.ffn_up_exps")
    return {
        **outer(),
        **layer_norms(),
        **tensor(
            "layers.{i}.mlp_norm.weight",
            "layers.{i}.post_attention_layernorm.weight",
            "blk.{i}.post_attention_norm.weight",
        ),
        **attention(),
        **tensor("layers.{i}.attn.sinks", "layers.{i}.self_attn.sinks", "blk.{i}.attn_sinks.weight"),
        **module("layers.{i}.mlp.router.gate", "layers.{i}.mlp.router", "blk.{i}.ffn_gate_inp"),
        f"{path}.gate_up": Source(
            (Entry(f"{hf}.gate_up_proj", _gate_up),), tuple(Entry(f"{name}.weight") for name in gates)
        ),
        f"{path}.gate_up_bias": Source(
            (Entry(f"{hf}.gate_up_proj_bias", _apart),), tuple(Entry(f"{name}.bias") for name in gates)
        ),
        f"{path}.down": Source((Entry(f"{hf}.down_proj", _turned),), (Entry("blk.{i}.ffn_down_exps.weight"),)),
        **tensor(f"{path}.down_bias", f"{hf}.down_proj_bias", "blk.{i}.ffn_down_exps.bias"),
    }


def _gate_up(stored: Tensor) -> Tensor:
    """[experts, hidden, 2 * inner], alternating -> [experts, 2 * inner, hidden], gates first."""
    return _apart(stored).transpose(1, 2)


def _apart(stored: Tensor) -> Tensor:
    """Put what alternates along the last dimension behind one another."""
    return torch.cat((stored[..., 0::2], stored[..., 1::2]), dim=-1)


def _turned(stored: Tensor) -> Tensor:
    return stored.transpose(1, 2)


FAMILY = Family(decoder_spec, names)
