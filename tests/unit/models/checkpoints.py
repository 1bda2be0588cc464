"""Small configs of every family, random checkpoints for them, and the same as llama.cpp would write them."""

import re
from collections import defaultdict
from typing import Any

import gguf
import torch
from torch import Tensor

from banyan.config.architecture import Architecture
from banyan.config.card import card_from_hf
from banyan.models.load import load_state
from banyan.models.model import Model
from banyan.models.names import Entry
from banyan.models.registry import build_model
from banyan.weights.source import MemorySource

BASE: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 12,
    "vocab_size": 20,
    "max_position_embeddings": 64,
}
MLA = {
    "kv_lora_rank": 6,
    "qk_nope_head_dim": 4,
    "qk_rope_head_dim": 2,
    "v_head_dim": 3,
    "moe_intermediate_size": 5,
    "num_experts_per_tok": 2,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {"architectures": ["LlamaForCausalLM"]},
    "mistral": {"architectures": ["MistralForCausalLM"]},
    "mixtral": {"architectures": ["MixtralForCausalLM"], "num_local_experts": 3, "num_experts_per_tok": 2},
    "qwen2": {"architectures": ["Qwen2ForCausalLM"]},
    "qwen3": {"architectures": ["Qwen3ForCausalLM"]},
    "qwen3_moe": {
        "architectures": ["Qwen3MoeForCausalLM"],
        "num_experts": 3,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 5,
    },
    "gemma2": {"architectures": ["Gemma2ForCausalLM"], "query_pre_attn_scalar": 8},
    "gemma3": {"architectures": ["Gemma3ForCausalLM"], "query_pre_attn_scalar": 8},
    "phi3": {"architectures": ["Phi3ForCausalLM"]},
    "gpt_oss": {"architectures": ["GptOssForCausalLM"], "num_local_experts": 3, "num_experts_per_tok": 2},
    "deepseek_v2": {"architectures": ["DeepseekV2ForCausalLM"], **MLA},
    "deepseek_v3": {"architectures": ["DeepseekV3ForCausalLM"], **MLA, "q_lora_rank": 6, "n_group": 2, "topk_group": 1},
    "bert": {"architectures": ["BertModel"]},
}
GGUF: dict[str, gguf.MODEL_ARCH] = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "mistral": gguf.MODEL_ARCH.LLAMA,
    "mixtral": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
    "qwen3_moe": gguf.MODEL_ARCH.QWEN3MOE,
    "gemma2": gguf.MODEL_ARCH.GEMMA2,
    "gemma3": gguf.MODEL_ARCH.GEMMA3,
    "phi3": gguf.MODEL_ARCH.PHI3,
    "gpt_oss": gguf.MODEL_ARCH.GPT_OSS,
    "deepseek_v2": gguf.MODEL_ARCH.DEEPSEEK2,
    "deepseek_v3": gguf.MODEL_ARCH.DEEPSEEK2,
    "bert": gguf.MODEL_ARCH.BERT,
}


def make_shape(family: str, **differences: Any) -> Architecture:
    """Read a small config of a family."""
    architecture = card_from_hf({**BASE, **CONFIGS[family], **differences}).architecture
    assert architecture is not None
    return architecture


def make_model(shape: Architecture, layers: range | None = None) -> Model:
    """Build a model on the CPU; its parameters are not filled."""
    return build_model(shape, context_length=64, device=torch.device("cpu"), dtype=torch.float32, layers=layers)


def make_hf(shape: Architecture, seed: int = 0) -> dict[str, Tensor]:
    """Make a random checkpoint with Hugging Face's names."""
    generator = torch.Generator().manual_seed(seed)
    model = make_model(shape)
    found = model.slots()
    sizes: dict[str, tuple[int, ...]] = {}
    for path, source in model.family.names(shape).items():
        for layer in range(shape.num_layers):
            slot = found.get(path.replace("{i}", str(layer)))
            if slot is None:
                continue
            for number, entry in enumerate(source.hf):
                part = number if len(source.hf) > 1 else None
                experts = range(slot.tensor.shape[0]) if "{e}" in entry.name else [None]
                for expert in experts:
                    name = entry.name.replace("{i}", str(layer)).replace("{e}", str(expert))
                    region = slot.region(part, expert)
                    sizes[_prefix(shape, name) + name] = _stored(shape, entry, tuple(region.shape))
    return {name: torch.randn(size, generator=generator) for name, size in sizes.items()}


def _prefix(shape: Architecture, name: str) -> str:
    outside = shape.family == "bert" or name.startswith(("lm_head", "score"))
    return "" if outside else "model."


def _stored(shape: Architecture, entry: Entry, size: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape in which a tensor is stored, where it is not that of the parameter."""
    if entry.transform is None or entry.name.endswith("gate_up_proj_bias"):
        return size
    if entry.name.endswith("kv_b_proj.weight"):
        return (size[0] * size[1], size[2])
    return (size[0], size[2], size[1])  # experts of GPT-OSS


def to_gguf(shape: Architecture, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename by the tables of the gguf library, and change what llama.cpp's converter changes."""
    table = gguf.get_tensor_name_map(GGUF[shape.family], shape.num_layers)
    found: dict[str, Tensor] = {}
    for name, tensor in _merged(tensors).items():
        for key, value in _changed(shape, name, tensor).items():
            renamed = table.get_name(key, try_suffixes=(".weight", ".bias"))
            assert renamed is not None, key
            found[renamed] = value
    return found


def _merged(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Stack the experts of a layer."""
    found, experts = dict[str, Tensor](), defaultdict[str, list[Tensor]](list)
    for name, tensor in tensors.items():
        numbered = re.fullmatch(r"(.*\.experts)\.\d+\.(.*)", name)
        if numbered:
            experts[f"{numbered[1]}.{numbered[2]}"].append(tensor)
        else:
            found[name] = tensor
    return found | {name: torch.stack(stack) for name, stack in experts.items()}


def _changed(shape: Architecture, name: str, tensor: Tensor) -> dict[str, Tensor]:
    if GGUF[shape.family] is gguf.MODEL_ARCH.LLAMA and re.search(r"\.[qk]_proj\.", name):
        heads = shape.num_heads if ".q_proj." in name else shape.num_kv_heads
        return {name: tensor.reshape(heads, 2, -1, *tensor.shape[1:]).swapaxes(1, 2).reshape(tensor.shape)}
    if shape.family.startswith("gemma") and "norm" in name:
        return {name: tensor + 1}
    if name.endswith("kv_b_proj.weight") and shape.mla is not None:
        keys, values = tensor.view(shape.num_heads, -1, shape.mla.kv_rank).split_with_sizes(
            (shape.mla.nope_dim, shape.mla.value_dim), dim=1
        )
        return {name.replace("kv_b", "k_b"): keys.transpose(1, 2), name.replace("kv_b", "v_b"): values}
    if name.endswith("e_score_correction_bias"):
        return {name.replace("_bias", ".bias"): tensor}
    if shape.family == "gpt_oss":
        return _changed_gpt_oss(name, tensor)
    return {name: tensor}


def _changed_gpt_oss(name: str, tensor: Tensor) -> dict[str, Tensor]:
    if name.endswith("sinks"):
        return {f"{name}.weight": tensor}
    kind = "bias" if name.endswith("_bias") else "weight"
    stem = name.removesuffix("_bias")
    if stem.endswith("gate_up_proj"):
        turned = tensor if kind == "bias" else tensor.transpose(1, 2)
        gate, up = turned[:, 0::2], turned[:, 1::2]
        return {stem.replace("gate_up", "gate") + f".{kind}": gate, stem.replace("gate_up", "up") + f".{kind}": up}
    if stem.endswith("experts.down_proj"):
        return {f"{stem}.{kind}": tensor if kind == "bias" else tensor.transpose(1, 2)}
    return {name: tensor}


def assert_loads_alike(family: str, **differences: Any) -> None:
    """Check that a checkpoint fills a model alike from either kind of file."""
    shape = make_shape(family, **differences)
    tensors = make_hf(shape)
    models = make_model(shape), make_model(shape)
    load_state(models[0], MemorySource(tensors))
    load_state(models[1], MemorySource(to_gguf(shape, tensors)), style="gguf")
    wanted, found = models[0].slots(), models[1].slots()
    assert wanted.keys() == found.keys()
    for path, slot in wanted.items():
        torch.testing.assert_close(found[path].tensor, slot.tensor, msg=path)
