"""Architecture: the shape of a network, as numbers and choices, whatever file it was read from."""

from typing import Literal

import msgspec

from banyan.config.rope import RopeCard

Activation = Literal["silu", "gelu", "gelu_tanh", "clamped_swiglu"]
Head = Literal["lm", "pool", "score"]
Pooling = Literal["last", "mean", "cls"]


class MoECard(msgspec.Struct, frozen=True, kw_only=True):
    """Experts of a model and how a token chooses among them."""

    num_experts: int
    top_k: int
    intermediate_size: int
    layers: tuple[bool, ...]  # per layer: experts, or a dense block
    scoring: Literal["softmax", "sigmoid"] = "softmax"
    norm_topk: bool = True  # weights of the chosen experts sum to one
    scale: float = 1.0  # weights are multiplied by it at last
    num_groups: int = 1  # only the best groups of experts are looked at
    top_groups: int = 1
    group_by_two: bool = False  # a group counts as much as its best two experts together; else as its best one
    score_bias: bool = False  # a learned bias that counts when choosing, not when weighing
    shared_size: int = 0  # width of the experts that all tokens pass, together
    bias: bool = False  # router and experts have biases
    swiglu_alpha: float = 1.702
    swiglu_limit: float = 7.0


class MLACard(msgspec.Struct, frozen=True, kw_only=True):
    """Multi-head latent attention: keys and values are kept as one small latent row per token."""

    q_rank: int  # 0: queries are not compressed
    kv_rank: int
    nope_dim: int  # part of a key without position
    rope_dim: int
    value_dim: int


class EncoderCard(msgspec.Struct, frozen=True, kw_only=True):
    """What an encoder has and a decoder has not; its positions are learned."""

    num_token_types: int


class Architecture(msgspec.Struct, frozen=True, kw_only=True):
    """A network. A field that says nothing about a family keeps its default."""

    family: str
    vocab_size: int
    num_positions: int  # longest sequence
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    attn_scale: float
    norm_eps: float
    activation: Activation = "silu"
    head: Head = "lm"
    num_labels: int = 0  # of a score head
    pooling: Pooling = "last"  # of a pool head
    norm_plus_one: bool = False  # norms multiply by one plus their weight
    post_norms: bool = False  # outputs of attention and feed-forward are normalised too
    qk_norm: bool = False
    tie_embeddings: bool = False
    embed_scale: float = 1.0
    logit_softcap: float = 0.0  # 0: none
    attn_softcap: float = 0.0
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    sinks: bool = False  # each head has a learned score that takes attention and gives nothing
    window: int = 0  # tokens that a sliding layer sees, itself included
    window_pattern: tuple[bool, ...] = ()  # per layer: sliding, or full
    rope: RopeCard | None = None
    local_rope: RopeCard | None = None  # of the sliding layers, where it is another
    moe: MoECard | None = None
    mla: MLACard | None = None
    encoder: EncoderCard | None = None

    def kv_numbers_per_token(self) -> int:
        """Count the numbers that the KV cache keeps of a token, over all layers."""
        if self.mla is not None:
            return self.num_layers * (self.mla.kv_rank + self.mla.rope_dim)
        return self.num_layers * self.num_kv_heads * 2 * self.head_dim
