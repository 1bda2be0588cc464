"""How each family's Hugging Face config becomes an Architecture: one function per family, in a literal table."""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from banyan.config.architecture import Activation, Architecture, EncoderCard, Head, MLACard, MoECard
from banyan.config.errors import ConfigError
from banyan.config.hf import HfConfig
from banyan.config.rope import attention_mscale, read_rope, stretched_length

_ACTIVATIONS: Final[dict[str, Activation]] = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
}


def read_architecture(hf: HfConfig) -> Architecture:
    """Read a config by the architecture it names; one that is not known is refused."""
    names = hf.words("architectures")
    if names:
        stem, head = _split(names[0])
        family = FAMILIES.get(stem)
    else:
        head = "lm"
        family = next((read for stem, read in FAMILIES.items() if _model_type(stem) == hf.word("model_type", "")), None)
    if family is None:
        asked = names[0] if names else hf.word("model_type", "")
        raise ConfigError(
            f"the model's architecture {asked!r} is not known; known are {', '.join(FAMILIES)}, "
            f"each followed by {', '.join(_HEADS)}"
        )
    shape = family(hf)
    return replace(shape, head=head, num_labels=hf.num_labels() if head == "score" else 0)


def _llama(hf: HfConfig) -> Architecture:
    return _decoder(hf, "llama")


def _mistral(hf: HfConfig) -> Architecture:
    return _decoder(hf.with_defaults(sliding_window=4096, num_key_value_heads=8), "mistral", _everywhere)


def _qwen2(hf: HfConfig) -> Architecture:
    return replace(_decoder(hf, "qwen2", _qwen_window(hf)), qkv_bias=True, o_bias=False)


def _qwen3(hf: HfConfig) -> Architecture:
    hf = hf.with_defaults(head_dim=128)
    return replace(_decoder(hf, "qwen3", _qwen_window(hf)), qk_norm=True)


def _qwen3_moe(hf: HfConfig) -> Architecture:
    used = hf.flag("use_sliding_window", False)
    shape = _decoder(hf, "qwen3_moe", _everywhere if used else None)
    dense, step = hf.wholes("mlp_only_layers"), hf.whole("decoder_sparse_step", 1)
    moe = MoECard(
        num_experts=hf.whole("num_experts", hf.whole("num_local_experts", 128)),
        top_k=hf.whole("num_experts_per_tok"),
        intermediate_size=hf.whole("moe_intermediate_size"),
        layers=tuple(i not in dense and (i + 1) % step == 0 for i in range(shape.num_layers)),
        norm_topk=hf.flag("norm_topk_prob", False),
    )
    return replace(shape, qk_norm=True, moe=moe)


def _mixtral(hf: HfConfig) -> Architecture:
    hf = hf.with_defaults(rope_theta=1e6, num_key_value_heads=8)
    shape = _decoder(hf, "mixtral", _everywhere)
    moe = MoECard(
        num_experts=hf.whole("num_local_experts"),
        top_k=hf.whole("num_experts_per_tok"),
        intermediate_size=shape.intermediate_size,
        layers=(True,) * shape.num_layers,
    )
    return replace(shape, moe=moe)


def _gemma2(hf: HfConfig) -> Architecture:
    hf = hf.with_defaults(
        head_dim=256,
        sliding_window=4096,
        query_pre_attn_scalar=256,
        final_logit_softcapping=30.0,
        attn_logit_softcapping=50.0,
        tie_word_embeddings=True,
    )
    return _gemma(hf, "gemma2", lambda layer: layer % 2 == 0)


def _gemma3(hf: HfConfig) -> Architecture:
    hf = hf.with_defaults(
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=256,
        sliding_window=4096,
        query_pre_attn_scalar=256,
        vocab_size=262_208,
        max_position_embeddings=131_072,
        rope_theta=1e6,
        rope_local_base_freq=1e4,
        tie_word_embeddings=True,
    )
    period = hf.whole("sliding_window_pattern", hf.whole("_sliding_window_pattern", 6))
    shape = _gemma(hf, "gemma3", lambda layer: bool((layer + 1) % period))
    return replace(
        shape,
        qk_norm=True,
        num_positions=hf.whole("max_position_embeddings"),  # unlike elsewhere, counted after the stretching
        local_rope=read_rope(hf, shape.head_dim, layer_type="sliding_attention"),
    )


def _phi3(hf: HfConfig) -> Architecture:
    return _decoder(hf, "phi3", _everywhere)


def _gpt_oss(hf: HfConfig) -> Architecture:
    hf = hf.with_defaults(attention_bias=True, rope_theta=150_000.0, head_dim=64)
    shape = _decoder(hf, "gpt_oss", lambda layer: layer % 2 == 0)
    moe = MoECard(
        num_experts=hf.whole("num_local_experts"),
        top_k=hf.whole("num_experts_per_tok", hf.whole("experts_per_token", 4)),
        intermediate_size=shape.intermediate_size,
        layers=(True,) * shape.num_layers,
        bias=True,
        swiglu_alpha=hf.number("swiglu_alpha", 1.702),
        swiglu_limit=hf.number("swiglu_limit", 7.0),
    )
    return replace(shape, activation="clamped_swiglu", sinks=True, moe=moe)


def _deepseek_v2(hf: HfConfig) -> Architecture:
    grouped = hf.word("topk_method", "greedy") == "group_limited_greedy"
    shape, moe = _deepseek(hf, "deepseek_v2")
    moe = replace(
        moe,
        norm_topk=False,
        num_groups=hf.whole("n_group") if grouped else 1,
        top_groups=hf.whole("topk_group") if grouped else 1,
    )
    return replace(shape, moe=moe)


def _deepseek_v3(hf: HfConfig) -> Architecture:
    shape, moe = _deepseek(hf, "deepseek_v3")
    moe = replace(
        moe,
        scoring="sigmoid",
        norm_topk=hf.flag("norm_topk_prob", True),
        num_groups=hf.whole("n_group", 8),
        top_groups=hf.whole("topk_group", 4),
        group_by_two=True,
        score_bias=True,
    )
    return replace(shape, moe=moe)


def _bert(hf: HfConfig) -> Architecture:
    if hf.word("position_embedding_type", "absolute") != "absolute":
        raise ConfigError("config.json: BERT's position_embedding_type must be absolute")
    num_heads = hf.whole("num_attention_heads")
    head_dim = hf.whole("hidden_size") // num_heads
    return Architecture(
        family="bert",
        vocab_size=hf.whole("vocab_size"),
        num_positions=hf.whole("max_position_embeddings"),
        hidden_size=hf.whole("hidden_size"),
        num_layers=hf.whole("num_hidden_layers"),
        num_heads=num_heads,
        num_kv_heads=num_heads,
        head_dim=head_dim,
        intermediate_size=hf.whole("intermediate_size"),
        attn_scale=head_dim**-0.5,
        norm_eps=hf.number("layer_norm_eps", 1e-12),
        activation=_activation(hf.word("hidden_act", "gelu")),
        pooling="cls",
        qkv_bias=True,
        o_bias=True,
        mlp_bias=True,
        encoder=EncoderCard(num_token_types=hf.whole("type_vocab_size", 2)),
    )


FAMILIES: Final[dict[str, Callable[[HfConfig], Architecture]]] = {
    "Llama": _llama,
    "Mistral": _mistral,
    "Mixtral": _mixtral,
    "Qwen2": _qwen2,
    "Qwen3": _qwen3,
    "Qwen3Moe": _qwen3_moe,
    "Gemma2": _gemma2,
    "Gemma3": _gemma3,
    "Phi3": _phi3,
    "GptOss": _gpt_oss,
    "DeepseekV2": _deepseek_v2,
    "DeepseekV3": _deepseek_v3,
    "Bert": _bert,
}
# An architecture's name is a family and what the network is for. A masked language model is served as an encoder.
_HEADS: Final[dict[str, Head]] = {
    "ForCausalLM": "lm",
    "ForConditionalGeneration": "lm",
    "ForSequenceClassification": "score",
    "ForMaskedLM": "pool",
    "TextModel": "pool",
    "Model": "pool",
}


def _split(architecture: str) -> tuple[str, Head]:
    for suffix, head in _HEADS.items():
        if architecture.endswith(suffix):
            return architecture.removesuffix(suffix), head
    return "", "lm"


def _model_type(stem: str) -> str:
    """Return the model_type that goes with a class name: Qwen3Moe is qwen3_moe."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in stem).removeprefix("_")


def _decoder(
    hf: HfConfig,
    family: str,
    sliding: Callable[[int], bool] | None = None,
    *,
    head_dim: int = 0,
    interleaved: bool = False,
) -> Architecture:
    """Read what decoders have in common; `sliding` says which layers slide where the config does not list them."""
    hidden_size, num_heads = hf.whole("hidden_size"), hf.whole("num_attention_heads")
    num_layers = hf.whole("num_hidden_layers")
    head_dim = head_dim or hf.whole("head_dim", hidden_size // num_heads)
    rope = read_rope(hf, head_dim, interleaved=interleaved)
    listed = hf.words("layer_types")
    window = hf.whole("sliding_window", 0) if sliding is not None else 0
    pattern: tuple[bool, ...] = ()
    if window and sliding is not None:
        pattern = tuple(kind == "sliding_attention" for kind in listed) or tuple(
            sliding(layer) for layer in range(num_layers)
        )
    bias = hf.flag("attention_bias", False)
    return Architecture(
        family=family,
        vocab_size=hf.whole("vocab_size"),
        num_positions=stretched_length(rope, hf.whole("max_position_embeddings")),
        hidden_size=hidden_size,
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=hf.whole("num_key_value_heads", num_heads),
        head_dim=head_dim,
        intermediate_size=hf.whole("intermediate_size"),
        attn_scale=head_dim**-0.5,
        norm_eps=hf.number("rms_norm_eps", 1e-6),
        activation=_activation(hf.word("hidden_act", "silu")),
        tie_embeddings=hf.flag("tie_word_embeddings", False),
        qkv_bias=bias,
        o_bias=bias,
        mlp_bias=hf.flag("mlp_bias", False),
        window=window if any(pattern) else 0,
        window_pattern=pattern if any(pattern) else (),
        rope=rope,
    )


def _gemma(hf: HfConfig, family: str, sliding: Callable[[int], bool]) -> Architecture:
    if hf.flag("use_bidirectional_attention", False):
        raise ConfigError("config.json: use_bidirectional_attention must be false: Gemma is run as a decoder")
    shape = _decoder(hf, family, sliding)
    return replace(
        shape,
        activation=_activation(hf.word("hidden_activation", hf.word("hidden_act", "gelu_pytorch_tanh"))),
        norm_plus_one=True,
        post_norms=True,
        embed_scale=shape.hidden_size**0.5,
        attn_scale=hf.number("query_pre_attn_scalar") ** -0.5,
        attn_softcap=hf.number("attn_logit_softcapping", 0.0),
        logit_softcap=hf.number("final_logit_softcapping", 0.0),
    )


def _deepseek(hf: HfConfig, family: str) -> tuple[Architecture, MoECard]:
    mla = MLACard(
        q_rank=hf.whole("q_lora_rank", 0),
        kv_rank=hf.whole("kv_lora_rank"),
        nope_dim=hf.whole("qk_nope_head_dim"),
        rope_dim=hf.whole("qk_rope_head_dim"),
        value_dim=hf.whole("v_head_dim"),
    )
    # A config's own head_dim, where it has one, is that of the rotary part alone.
    shape = _decoder(hf, family, head_dim=mla.rope_dim, interleaved=hf.flag("rope_interleave", True))
    head_dim = mla.nope_dim + mla.rope_dim
    scale = head_dim**-0.5 * attention_mscale(hf)
    first, step = hf.whole("first_k_dense_replace", 0), hf.whole("moe_layer_freq", 1)
    moe = MoECard(
        num_experts=hf.whole("n_routed_experts"),
        top_k=hf.whole("num_experts_per_tok"),
        intermediate_size=hf.whole("moe_intermediate_size"),
        layers=tuple(i >= first and i % step == 0 for i in range(shape.num_layers)),
        scale=hf.number("routed_scaling_factor", 1.0),
        shared_size=hf.whole("moe_intermediate_size") * hf.whole("n_shared_experts", 0),
    )
    return replace(shape, head_dim=head_dim, attn_scale=scale, mla=mla), moe


def _everywhere(layer: int) -> bool:
    del layer
    return True


def _qwen_window(hf: HfConfig) -> Callable[[int], bool] | None:
    """Qwen names a window even where it uses none, and where it does, only for the upper layers."""
    if not hf.flag("use_sliding_window", False):
        return None
    first = hf.whole("max_window_layers", 28)
    return lambda layer: layer >= first


def _activation(name: str) -> Activation:
    found = _ACTIVATIONS.get(name)
    if found is None:
        raise ConfigError(f"config.json: activation {name!r} is not known; known are {', '.join(_ACTIVATIONS)}")
    return found
