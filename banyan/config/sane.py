"""Numbers of a model that cannot be true are refused before anything is computed or made from them."""

import math
from collections.abc import Mapping
from typing import Final

from banyan.config.architecture import Architecture
from banyan.config.errors import ConfigError
from banyan.config.rope import RopeCard

_WIDTH: Final = (1, 1 << 22)
_COUNT: Final = (1, 1 << 16)
_LENGTH: Final = (1, 1 << 30)
_LIMITS: Final = {
    "num_hidden_layers": (1, 4096),
    "hidden_size": _WIDTH,
    "intermediate_size": _WIDTH,
    "moe_intermediate_size": _WIDTH,
    "head_dim": _WIDTH,
    "num_attention_heads": _COUNT,
    "num_key_value_heads": _COUNT,
    "num_experts": _COUNT,
    "num_local_experts": _COUNT,
    "n_routed_experts": _COUNT,
    "num_experts_per_tok": _COUNT,
    "kv_lora_rank": _WIDTH,
    "qk_nope_head_dim": _WIDTH,
    "qk_rope_head_dim": _WIDTH,
    "v_head_dim": _WIDTH,
    "vocab_size": (1, 1 << 26),
    "max_position_embeddings": _LENGTH,
    "original_max_position_embeddings": _LENGTH,
}


def check_sizes(config: Mapping[str, object]) -> None:
    """Refuse sizes in a config.json that no model has."""
    text = config.get("text_config")
    for entries in (config, text if isinstance(text, Mapping) else {}):
        for key, (low, high) in _LIMITS.items():
            value = entries.get(key)
            if isinstance(value, int) and not low <= value <= high:
                raise ConfigError(f"config.json: {key} is {value:.20g}; it must be from {low} to {high}")


def check_architecture(shape: Architecture) -> None:
    """Refuse an architecture whose numbers do not go together."""
    if shape.mla is None and shape.num_heads % shape.num_kv_heads:
        raise ConfigError(f"{shape.num_heads} heads cannot share {shape.num_kv_heads} heads of keys and values")
    if not 0 <= shape.norm_eps < 1:
        raise ConfigError(f"the model's norms add {shape.norm_eps}; that must be from 0 to 1")
    if shape.num_positions < 1:
        raise ConfigError(f"the model's longest sequence is {shape.num_positions}; it must be at least 1")
    for rope in (shape.rope, shape.local_rope):
        if rope is not None:
            _check_rope(rope, shape.head_dim)


def _check_rope(rope: RopeCard, head_dim: int) -> None:
    if not 2 <= rope.rotary_dim <= head_dim or rope.rotary_dim % 2:
        raise ConfigError(f"{rope.rotary_dim} of {head_dim} numbers of a head cannot be turned in pairs")
    for name, value in (("base", rope.theta), ("factor", rope.factor), ("attention factor", rope.attention_factor)):
        if not (math.isfinite(value) and value > 0):
            raise ConfigError(f"the {name} of the rotary embedding is {value}; it must be above 0")
    if rope.kind == "longrope":
        lengths = {len(rope.short_factors), len(rope.long_factors)}
        if lengths != {rope.rotary_dim // 2}:
            raise ConfigError(f"the rotary embedding has {sorted(lengths)} factors for {rope.rotary_dim // 2} pairs")
