import numpy as np
import pytest

from banyan.config.architecture import Architecture
from banyan.config.card import ModelCard
from banyan.config.errors import ConfigError
from banyan.config.gguf_card import card_from_gguf
from banyan.config.metadata import Metadata, Value

HIDDEN, VOCAB = 64, 100


def read(
    arch: str,
    more: dict[str, Value] | None = None,
    *,
    tensors: tuple[str, ...] = (),
    floats: dict[str, tuple[float, ...]] | None = None,
    embedding: tuple[int, ...] = (VOCAB, HIDDEN),
) -> ModelCard:
    entries: dict[str, Value] = {
        "general.architecture": arch,
        f"{arch}.block_count": 12,
        f"{arch}.context_length": 4096,
        f"{arch}.embedding_length": HIDDEN,
        f"{arch}.feed_forward_length": 128,
        f"{arch}.attention.head_count": 4,
        f"{arch}.attention.head_count_kv": 2,
        f"{arch}.attention.layer_norm_rms_epsilon": 1e-6,
        "tokenizer.ggml.tokens": [f"t{number}" for number in range(VOCAB - 3)] + ["<|im_end|>", "</s>", "<|end|>"],
        "tokenizer.ggml.token_type": np.array([1] * (VOCAB - 3) + [3, 3, 1]),
        "tokenizer.ggml.eos_token_id": 98,
        "tokenizer.ggml.bos_token_id": 5,
    }
    shapes = {"token_embd.weight": embedding} | dict.fromkeys(tensors, (1,))
    return card_from_gguf(Metadata(entries | (more or {})), shapes, floats or {}, name="m", tokenizer="m.gguf")


def shape_of(card: ModelCard) -> Architecture:
    assert card.architecture is not None
    return card.architecture


def test_what_decoders_have_in_common() -> None:
    card = read("llama", {"llama.rope.freq_base": 5e5, "llama.rope.dimension_count": 8})
    shape = shape_of(card)
    assert (shape.family, shape.num_layers, shape.num_heads, shape.num_kv_heads) == ("llama", 12, 4, 2)
    assert (shape.head_dim, shape.hidden_size, shape.intermediate_size) == (16, HIDDEN, 128)
    assert shape.rope is not None
    assert (shape.rope.theta, shape.rope.rotary_dim, shape.rope.interleaved) == (5e5, 8, False)
    assert (card.context_length, card.vocab_size, card.bos_id, card.tokenizer) == (4096, VOCAB, 5, "m.gguf")
    assert card.kv_bytes_per_token == 12 * 2 * 2 * 16 * 2


def test_an_output_of_its_own_unties_the_embedding() -> None:
    assert shape_of(read("llama")).tie_embeddings
    assert not shape_of(read("llama", tensors=("output.weight",))).tie_embeddings


def test_all_tokens_that_end_a_turn_do() -> None:
    # The file's own first; then a control token known by its name; not an ordinary token of such a name.
    assert read("llama").eos_ids == (98, 97)
    assert read("llama", {"tokenizer.ggml.eot_token_id": 3}).eos_ids == (98, 3, 97)


def test_qwen_has_biases_and_norms() -> None:
    assert shape_of(read("qwen2", tensors=("blk.0.attn_q.bias",))).qkv_bias
    third = shape_of(read("qwen3", {"qwen3.attention.key_length": 32, "qwen3.attention.value_length": 32}))
    assert (third.qk_norm, third.head_dim, third.qkv_bias) == (True, 32, False)


def test_experts() -> None:
    moe = shape_of(
        read(
            "qwen3moe",
            {
                "qwen3moe.expert_count": 8,
                "qwen3moe.expert_used_count": 2,
                "qwen3moe.expert_feed_forward_length": 48,
            },
        )
    ).moe
    assert moe is not None
    assert (moe.num_experts, moe.top_k, moe.intermediate_size, moe.norm_topk) == (8, 2, 48, True)
    mixtral = shape_of(read("llama", {"llama.expert_count": 8, "llama.expert_used_count": 2}))
    assert (mixtral.family, mixtral.window) == ("mixtral", 0)


def test_gemma_3_slides_in_five_layers_of_six() -> None:
    more: dict[str, Value] = {
        "gemma3.attention.sliding_window": 512,
        "gemma3.attention.key_length": 256,
        "gemma3.attention.value_length": 256,
        "gemma3.rope.freq_base": 1e6,
        "gemma3.rope.scaling.type": "linear",
        "gemma3.rope.scaling.factor": 8.0,
    }
    shape = shape_of(read("gemma3", more))
    assert shape.window == 512 and shape.window_pattern == (True, True, True, True, True, False) * 2
    assert (shape.attn_scale, shape.embed_scale, shape.logit_softcap) == (1 / 16, 8.0, 0.0)
    assert shape.qk_norm and shape.post_norms and shape.norm_plus_one and shape.activation == "gelu_tanh"
    assert shape.rope is not None and shape.local_rope is not None
    assert (shape.rope.theta, shape.rope.kind, shape.rope.factor) == (1e6, "linear", 8.0)
    assert (shape.local_rope.theta, shape.local_rope.kind) == (10_000.0, "default")


def test_the_largest_gemma_scales_by_its_own_rule() -> None:
    layers: dict[str, Value] = {"gemma2.block_count": 46, "gemma2.attention.key_length": 32}
    small = shape_of(read("gemma2", {"gemma2.attention.key_length": 32, "gemma2.attention.value_length": 32}))
    large = shape_of(read("gemma2", layers | {"gemma2.attention.value_length": 32}))
    assert small.attn_scale == 32**-0.5
    assert large.attn_scale == (HIDDEN // 4) ** -0.5
    assert (large.attn_softcap, large.logit_softcap, large.window) == (50.0, 30.0, 4096)


def test_stretched_positions() -> None:
    yarn: dict[str, Value] = {
        "qwen2.rope.scaling.type": "yarn",
        "qwen2.rope.scaling.factor": 4.0,
        "qwen2.rope.scaling.original_context_length": 1024,
    }
    rope = shape_of(read("qwen2", yarn)).rope
    assert rope is not None
    assert (rope.kind, rope.factor, rope.original_length) == ("yarn", 4.0, 1024)
    factors: dict[str, tuple[float, ...]] = {
        "rope_factors_short.weight": (1.0,) * 8,
        "rope_factors_long.weight": (2.0,) * 8,
    }
    long = shape_of(read("phi3", {"phi3.rope.scaling.original_context_length": 1024}, floats=factors)).rope
    assert long is not None
    assert (long.kind, long.original_length, long.short_factors[0], long.long_factors[0]) == (
        "longrope",
        1024,
        1.0,
        2.0,
    )
    assert long.attention_factor > 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"general.architecture": "mamba"}, "architecture 'mamba' is not known; known are llama"),
        ({"llama.block_count": 0}, "block_count is 0; it must be from 1"),
        ({"llama.block_count": 2**31}, "block_count is 2147483648"),
        ({"llama.attention.head_count": 0}, "head_count is 0"),
        ({"llama.embedding_length": 2**40}, "embedding_length is"),
        ({"llama.embedding_length": 63}, "must have rows of 63"),
        ({"llama.context_length": "long"}, "should be a whole number, not 'long'"),
        ({"llama.attention.head_count_kv": np.array([1, 2])}, "not a list of 2"),
        ({"llama.attention.value_length": 7}, "different lengths"),
        ({"llama.attention.layer_norm_rms_epsilon": float("nan")}, "should be a number, not nan"),
        ({"llama.rope.scaling.type": "magic"}, "'magic' is not known"),
        ({"tokenizer.ggml.eos_token_id": 1000}, "token 1000 ends a text, but has only 100"),
    ],
)
def test_lies_are_refused(more: dict[str, Value], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read("llama", more)


def test_a_file_without_an_embedding_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"token_embd\.weight has shape \[\]"):
        read("llama", embedding=())
