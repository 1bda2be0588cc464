"""DecoderSpec and EncoderSpec: a network described as data, layer by layer."""

from dataclasses import dataclass, replace

from banyan.config.architecture import Activation, Architecture, MLACard, MoECard
from banyan.config.rope import RopeCard
from banyan.layers.attention import AttentionSpec
from banyan.layers.mla import MLASpec


@dataclass(frozen=True, slots=True)
class MLPSpec:
    """A dense feed-forward block."""

    inner_size: int
    activation: Activation
    bias: bool


@dataclass(frozen=True, slots=True)
class MoESpec:
    """A feed-forward block of experts."""

    card: MoECard
    activation: Activation


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """A layer: attention, then feed-forward."""

    attention: AttentionSpec | MLASpec
    mlp: MLPSpec | MoESpec


@dataclass(frozen=True, slots=True)
class DecoderSpec:
    """A decoder. `kv_*` is what a token leaves in the KV cache of each layer."""

    vocab_size: int
    hidden_size: int
    layers: tuple[LayerSpec, ...]
    ropes: tuple[RopeCard, ...]
    norm_eps: float
    norm_plus_one: bool
    post_norms: bool
    embed_scale: float
    tie_embeddings: bool
    logit_softcap: float
    kv_heads: int
    key_dim: int
    value_dim: int
    latent: bool  # values are the leading numbers of the keys


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """An encoder: each token sees all of its row, so rows cannot be cut and prefixes cannot be shared."""

    vocab_size: int
    hidden_size: int
    num_positions: int
    num_token_types: int
    num_layers: int
    attention: AttentionSpec
    mlp: MLPSpec
    norm_eps: float
    kv_heads: int
    key_dim: int
    value_dim: int
    latent: bool = False


def decoder_spec(shape: Architecture) -> DecoderSpec:
    """Describe a decoder."""
    if shape.rope is None:
        raise ValueError(f"{shape.family} has no rotary embedding")
    ropes = (shape.rope,) if shape.local_rope is None else (shape.rope, shape.local_rope)
    if shape.mla is not None:
        kv_heads, key_dim, value_dim = 1, shape.mla.kv_rank + shape.mla.rope_dim, shape.mla.kv_rank
    else:
        kv_heads, key_dim, value_dim = shape.num_kv_heads, shape.head_dim, shape.head_dim
    return DecoderSpec(
        vocab_size=shape.vocab_size,
        hidden_size=shape.hidden_size,
        layers=tuple(
            LayerSpec(_attention(shape, layer, shape.rope, shape.mla), _mlp(shape, layer))
            for layer in range(shape.num_layers)
        ),
        ropes=ropes,
        norm_eps=shape.norm_eps,
        norm_plus_one=shape.norm_plus_one,
        post_norms=shape.post_norms,
        embed_scale=shape.embed_scale,
        tie_embeddings=shape.tie_embeddings,
        logit_softcap=shape.logit_softcap,
        kv_heads=kv_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        latent=shape.mla is not None,
    )


def encoder_spec(shape: Architecture) -> EncoderSpec:
    """Describe an encoder."""
    if shape.encoder is None:
        raise ValueError(f"{shape.family} is no encoder")
    return EncoderSpec(
        vocab_size=shape.vocab_size,
        hidden_size=shape.hidden_size,
        num_positions=shape.num_positions,
        num_token_types=shape.encoder.num_token_types,
        num_layers=shape.num_layers,
        attention=replace(_heads(shape), rope=None, causal=False),
        mlp=MLPSpec(shape.intermediate_size, shape.activation, shape.mlp_bias),
        norm_eps=shape.norm_eps,
        kv_heads=shape.num_kv_heads,
        key_dim=shape.head_dim,
        value_dim=shape.head_dim,
    )


def _attention(shape: Architecture, layer: int, rope: RopeCard, mla: MLACard | None) -> AttentionSpec | MLASpec:
    if mla is not None:
        return MLASpec(shape.num_heads, mla, shape.attn_scale, rope.interleaved, bias=shape.qkv_bias)
    sliding = bool(shape.window_pattern) and shape.window_pattern[layer]
    return replace(
        _heads(shape),
        rope=1 if sliding and shape.local_rope is not None else 0,
        interleaved=rope.interleaved,
        window=shape.window if sliding else 0,
    )


def _heads(shape: Architecture) -> AttentionSpec:
    return AttentionSpec(
        num_heads=shape.num_heads,
        num_kv_heads=shape.num_kv_heads,
        head_dim=shape.head_dim,
        scale=shape.attn_scale,
        softcap=shape.attn_softcap,
        sinks=shape.sinks,
        qkv_bias=shape.qkv_bias,
        o_bias=shape.o_bias,
        qk_norm=shape.qk_norm,
        norm_eps=shape.norm_eps,
        norm_plus_one=shape.norm_plus_one,
    )


def _mlp(shape: Architecture, layer: int) -> MLPSpec | MoESpec:
    if shape.moe is not None and shape.moe.layers[layer]:
        return MoESpec(shape.moe, shape.activation)
    return MLPSpec(shape.intermediate_size, shape.activation, shape.mlp_bias)
