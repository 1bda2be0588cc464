"""card_from_gguf: GGUF's metadata, put into the words of Hugging Face's configs, so that both are read alike."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from msgspec.structs import replace

from banyan.config.card import ModelCard, card_from_hf
from banyan.config.errors import ConfigError
from banyan.config.metadata import Metadata

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]
Floats: TypeAlias = Mapping[str, tuple[float, ...]]
_Config: TypeAlias = dict[str, object]

# Tokens that end a turn or a text. A file names one of them, but a model that chats may use another.
END_TOKENS: Final = frozenset(
    (
        "</s>",
        "<eos>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|im_end|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end|>",
        "<end_of_turn>",
        "<|return|>",
        "<｜end▁of▁sentence｜>",
    )
)
_CONTROL: Final = 3  # the type of such tokens
_END_KEYS: Final = ("eos_token_id", "eot_token_id", "eom_token_id")
_MAX_LAYERS: Final = 4096
_MAX_WIDTH: Final = 1 << 22
_LOCAL_THETA: Final = 10_000.0  # of Gemma 3's sliding layers


class _Reader:
    """The entries of one architecture, whose name begins their keys."""

    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata
        self.name = metadata.word("general.architecture")

    def has(self, key: str) -> bool:
        return f"{self.name}.{key}" in self.metadata

    def size(self, key: str, default: int | None = None, limit: int = _MAX_WIDTH) -> int:
        """Read a number that something is as large as."""
        value = self.metadata.whole(f"{self.name}.{key}", default)
        if not 0 < value <= limit:
            raise ConfigError(f"{self.name}.{key} is {value}; it must be from 1 to {limit}")
        return value

    def number(self, key: str, default: float) -> float:
        return self.metadata.number(f"{self.name}.{key}", default)

    def word(self, key: str, default: str) -> str:
        return self.metadata.word(f"{self.name}.{key}", default)


def card_from_gguf(metadata: Metadata, shapes: Shapes, floats: Floats, *, name: str, tokenizer: str) -> ModelCard:
    """Make a card from a file's metadata, the shapes of its tensors, and the numbers of its small ones."""
    reader = _Reader(metadata)
    family = _FAMILIES.get(reader.name)
    if family is None:
        raise ConfigError(f"the architecture {reader.name!r:.40} is not known; known are {', '.join(_FAMILIES)}")
    config = _decoder(reader, shapes, floats)
    config |= family(reader, config)
    ends = _ends(metadata)
    card = card_from_hf({**config, "dtype": "bfloat16"}, name=name, tokenizer=tokenizer)
    bos = "tokenizer.ggml.bos_token_id"
    return replace(card, eos_ids=ends, bos_id=metadata.whole(bos) if bos in metadata else None)


def _decoder(reader: _Reader, shapes: Shapes, floats: Floats) -> _Config:
    """Put what decoders have in common into other words."""
    hidden, heads = reader.size("embedding_length"), reader.size("attention.head_count")
    head_dim = reader.size("attention.key_length", max(1, hidden // heads))
    if reader.size("attention.value_length", head_dim) != head_dim:
        raise ConfigError(f"{reader.name}: keys and values of different lengths are not supported")
    embedding = shapes.get("token_embd.weight", ())
    if len(embedding) != 2 or embedding[1] != hidden:
        raise ConfigError(f"token_embd.weight has shape {list(embedding)}; it must have rows of {hidden}")
    return {
        "hidden_size": hidden,
        "num_hidden_layers": reader.size("block_count", limit=_MAX_LAYERS),
        "num_attention_heads": heads,
        "num_key_value_heads": reader.size("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "intermediate_size": reader.size("feed_forward_length"),
        "rms_norm_eps": reader.number("attention.layer_norm_rms_epsilon", 1e-5),
        "max_position_embeddings": reader.size("context_length", limit=1 << 30),
        "vocab_size": embedding[0],
        "tie_word_embeddings": "output.weight" not in shapes,
        "attention_bias": "blk.0.attn_q.bias" in shapes,
        "rope_theta": reader.number("rope.freq_base", 10_000.0),
        "partial_rotary_factor": reader.size("rope.dimension_count", head_dim) / head_dim,
        "rope_scaling": _scaling(reader, floats),
    }


def _scaling(reader: _Reader, floats: Floats) -> _Config | None:
    """Read how positions are stretched: by numbers, or by a factor per frequency that is a tensor of its own."""
    trained = reader.size("context_length", limit=1 << 30)
    original = reader.size("rope.scaling.original_context_length", trained, limit=1 << 30)
    short, long = (floats.get(f"rope_factors_{kind}.weight") for kind in ("short", "long"))
    if (factors := floats.get("rope_freqs.weight")) is not None:  # of Llama 3.1 and later; the same for all lengths
        short = long = factors
        original = trained
    if short is not None and long is not None:
        scaling: _Config = {"rope_type": "longrope", "short_factor": list(short), "long_factor": list(long)}
        if original == trained or reader.has("rope.scaling.attn_factor"):
            scaling["attention_factor"] = reader.number("rope.scaling.attn_factor", 1.0)
        return scaling | {"original_max_position_embeddings": original}
    kind = reader.word("rope.scaling.type", "none")
    if kind == "none":
        return None
    factor = reader.number("rope.scaling.factor", 1.0)
    return {"rope_type": kind, "factor": factor, "original_max_position_embeddings": original}


def _llama(reader: _Reader, config: _Config) -> _Config:
    del config
    if not reader.has("expert_count"):
        return {"architectures": ["LlamaForCausalLM"]}
    return {
        "architectures": ["MixtralForCausalLM"],
        "num_local_experts": reader.size("expert_count"),
        "num_experts_per_tok": reader.size("expert_used_count"),
        "sliding_window": None,
    }


def _qwen2(reader: _Reader, config: _Config) -> _Config:
    del reader, config
    return {"architectures": ["Qwen2ForCausalLM"]}


def _qwen3(reader: _Reader, config: _Config) -> _Config:
    del reader, config
    return {"architectures": ["Qwen3ForCausalLM"]}


def _qwen3_moe(reader: _Reader, config: _Config) -> _Config:
    del config
    return {
        "architectures": ["Qwen3MoeForCausalLM"],
        "num_experts": reader.size("expert_count"),
        "num_experts_per_tok": reader.size("expert_used_count"),
        "moe_intermediate_size": reader.size("expert_feed_forward_length"),
        "norm_topk_prob": True,
    }


def _gemma2(reader: _Reader, config: _Config) -> _Config:
    return {
        "architectures": ["Gemma2ForCausalLM"],
        "sliding_window": reader.size("attention.sliding_window", 4096),
        "query_pre_attn_scalar": _gemma_scalar(config, layers_of_27b=46),
        "attn_logit_softcapping": reader.number("attn_logit_softcapping", 50.0),
        "final_logit_softcapping": reader.number("final_logit_softcapping", 30.0),
    }


def _gemma3(reader: _Reader, config: _Config) -> _Config:
    return {
        "architectures": ["Gemma3ForCausalLM"],
        "sliding_window": reader.size("attention.sliding_window"),
        "query_pre_attn_scalar": _gemma_scalar(config, layers_of_27b=62),
        "final_logit_softcapping": reader.number("final_logit_softcapping", 0.0),
        "rope_local_base_freq": reader.number("rope.freq_base_swa", _LOCAL_THETA),
    }


def _gemma_scalar(config: _Config, layers_of_27b: int) -> object:
    """Return what scores are scaled by. It is not in the file, but only the largest model has its own rule."""
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    if config["num_hidden_layers"] == layers_of_27b and isinstance(hidden, int) and isinstance(heads, int):
        return hidden // heads
    return config["head_dim"]


def _phi3(reader: _Reader, config: _Config) -> _Config:
    del config
    window = reader.size("attention.sliding_window") if reader.has("attention.sliding_window") else None
    return {"architectures": ["Phi3ForCausalLM"], "sliding_window": window}


_FAMILIES: Final[dict[str, Callable[[_Reader, _Config], _Config]]] = {
    "llama": _llama,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3moe": _qwen3_moe,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "phi3": _phi3,
}


def _ends(metadata: Metadata) -> tuple[int, ...]:
    """List the tokens that end a text: those that the file names, and those that are known by name."""
    keys = (f"tokenizer.ggml.{key}" for key in _END_KEYS)
    named = [metadata.whole(key) for key in keys if key in metadata]
    tokens, kinds = metadata.words("tokenizer.ggml.tokens"), metadata.numbers("tokenizer.ggml.token_type")
    known = [
        number for number, kind in enumerate(kinds[: len(tokens)]) if kind == _CONTROL and tokens[number] in END_TOKENS
    ]
    ends = tuple(dict.fromkeys((*named, *known)))
    if any(end >= max(1, len(tokens)) for end in ends):
        raise ConfigError(f"the file says that token {max(ends)} ends a text, but has only {len(tokens)} tokens")
    return ends
