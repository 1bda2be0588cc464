"""Tests of banyan.config.families. Configs as they are published; all numbers are read in tests/equal, too."""

import math
from typing import Any

import pytest

from banyan.config.architecture import Architecture
from banyan.config.errors import ConfigError
from banyan.config.families import FAMILIES, read_architecture
from banyan.config.hf import HfConfig

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "vocab_size": 128,
    "max_position_embeddings": 256,
}


def read(architecture: str, **differences: Any) -> Architecture:
    """Read a small config."""
    return read_architecture(HfConfig({"architectures": [architecture], **SMALL, **differences}))


@pytest.mark.parametrize(
    ("architecture", "head"),
    [
        ("LlamaForCausalLM", "lm"),
        ("LlamaModel", "pool"),
        ("Qwen2ForSequenceClassification", "score"),
        ("BertForMaskedLM", "pool"),
        ("Gemma3TextModel", "pool"),
        ("Gemma3ForConditionalGeneration", "lm"),
    ],
)
def test_the_name_of_an_architecture_says_what_it_is_for(architecture: str, head: str) -> None:
    assert read(architecture).head == head


@pytest.mark.parametrize("architecture", ["GPT2LMHeadModel", "LlamaForTokenClassification", "ForCausalLM"])
def test_an_unknown_architecture_is_refused_with_those_that_are_known(architecture: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(architecture)
    assert repr(architecture) in str(caught.value)
    assert ", ".join(FAMILIES) in str(caught.value)
    assert "ForCausalLM" in str(caught.value)


def test_a_config_without_architectures_goes_by_its_model_type() -> None:
    config = {**SMALL, "model_type": "qwen3_moe", "num_experts_per_tok": 2, "moe_intermediate_size": 8}
    assert read_architecture(HfConfig(config)).family == "qwen3_moe"
    with pytest.raises(ConfigError, match="'gpt2' is not known"):
        read_architecture(HfConfig({**SMALL, "model_type": "gpt2"}))


def test_llama() -> None:
    shape = read("LlamaForCausalLM", attention_bias=True, tie_word_embeddings=True, rms_norm_eps=1e-5)
    assert (shape.num_kv_heads, shape.head_dim, shape.attn_scale) == (4, 16, 0.25)
    assert (shape.qkv_bias, shape.o_bias, shape.mlp_bias, shape.tie_embeddings) == (True, True, False, True)
    assert (shape.norm_eps, shape.window, shape.window_pattern) == (1e-5, 0, ())


@pytest.mark.parametrize(("given", "window"), [({}, 4096), ({"sliding_window": 9}, 9), ({"sliding_window": None}, 0)])
def test_mistral_slides_everywhere_unless_its_window_is_null(given: dict[str, Any], window: int) -> None:
    shape = read("MistralForCausalLM", **given)
    assert shape.window == window
    assert shape.window_pattern == ((True,) * 4 if window else ())


def test_qwen_names_a_window_that_it_does_not_use() -> None:
    assert read("Qwen2ForCausalLM", sliding_window=9, max_window_layers=2).window == 0
    shape = read("Qwen2ForCausalLM", use_sliding_window=True, sliding_window=9, max_window_layers=3)
    assert (shape.window, shape.window_pattern) == (9, (False, False, False, True))
    assert (shape.qkv_bias, shape.o_bias, shape.qk_norm) == (True, False, False)
    newer = read("Qwen3ForCausalLM")
    assert (newer.qkv_bias, newer.qk_norm, newer.head_dim) == (False, True, 128)


def test_qwen3_moe() -> None:
    given = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True}
    moe = read("Qwen3MoeForCausalLM", **given, decoder_sparse_step=2, mlp_only_layers=[3]).moe
    assert moe is not None
    assert (moe.num_experts, moe.top_k, moe.intermediate_size, moe.norm_topk) == (8, 2, 32, True)
    assert moe.layers == (False, True, False, False)


def test_mixtral() -> None:
    shape = read("MixtralForCausalLM", num_local_experts=8, num_experts_per_tok=2)
    assert shape.moe is not None
    assert (shape.moe.norm_topk, shape.moe.layers, shape.moe.intermediate_size) == (True, (True,) * 4, 96)
    assert shape.rope is not None
    assert shape.rope.theta == 1e6


def test_gemma2() -> None:
    shape = read("Gemma2ForCausalLM", query_pre_attn_scalar=144)
    assert (shape.attn_softcap, shape.logit_softcap, shape.attn_scale) == (50.0, 30.0, 1 / 12)
    assert (shape.norm_plus_one, shape.post_norms, shape.tie_embeddings, shape.qk_norm) == (True, True, True, False)
    assert (shape.embed_scale, shape.activation, shape.head_dim) == (8.0, "gelu_tanh", 256)
    assert shape.window_pattern == (True, False, True, False)


def test_gemma3_as_it_is_published_says_little_of_itself() -> None:
    text = {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    }
    shape = read_architecture(HfConfig({"architectures": ["Gemma3ForConditionalGeneration"], "text_config": text}))
    assert (shape.num_heads, shape.num_kv_heads, shape.head_dim, shape.vocab_size) == (8, 4, 256, 262_208)
    assert shape.window_pattern[:7] == (True,) * 5 + (False, True)
    assert shape.num_positions == 131_072
    assert shape.rope is not None
    assert shape.local_rope is not None
    assert (shape.rope.theta, shape.rope.kind, shape.rope.factor) == (1e6, "linear", 8.0)
    assert (shape.local_rope.theta, shape.local_rope.kind) == (1e4, "default")
    assert (shape.attn_softcap, shape.logit_softcap, shape.qk_norm) == (0.0, 0.0, True)


def test_gemma_is_run_as_a_decoder() -> None:
    with pytest.raises(ConfigError, match="use_bidirectional_attention"):
        read("Gemma3TextModel", use_bidirectional_attention=True)


def test_phi3() -> None:
    shape = read("Phi3ForCausalLM", sliding_window=2047, partial_rotary_factor=0.5)
    assert shape.rope is not None
    assert (shape.window, shape.rope.rotary_dim) == (2047, 8)


def test_gpt_oss() -> None:
    shape = read("GptOssForCausalLM", num_local_experts=8, num_experts_per_tok=2, sliding_window=128)
    assert (shape.sinks, shape.activation, shape.qkv_bias, shape.o_bias) == (True, "clamped_swiglu", True, True)
    assert shape.window_pattern == (True, False, True, False)
    assert shape.moe is not None
    assert (shape.moe.bias, shape.moe.swiglu_limit) == (True, 7.0)


DEEPSEEK = {
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
    "moe_intermediate_size": 10,
    "num_experts_per_tok": 2,
    "n_routed_experts": 8,
    "n_shared_experts": 3,
    "first_k_dense_replace": 1,
    "n_group": 4,
    "topk_group": 2,
}


def test_deepseek_v2() -> None:
    shape = read("DeepseekV2ForCausalLM", **DEEPSEEK, q_lora_rank=None, routed_scaling_factor=16.0)
    assert (shape.moe, shape.mla) != (None, None)
    assert shape.moe is not None
    assert shape.mla is not None
    assert shape.rope is not None
    assert (shape.mla.q_rank, shape.head_dim, shape.rope.rotary_dim, shape.rope.interleaved) == (0, 24, 8, True)
    assert (shape.moe.layers, shape.moe.shared_size, shape.moe.scale) == ((False, True, True, True), 30, 16.0)
    assert (shape.moe.num_groups, shape.moe.norm_topk, shape.moe.scoring) == (1, False, "softmax")
    grouped = read("DeepseekV2ForCausalLM", **DEEPSEEK, topk_method="group_limited_greedy").moe
    assert grouped is not None
    assert (grouped.num_groups, grouped.top_groups, grouped.group_by_two) == (4, 2, False)


def test_deepseek_v3() -> None:
    scaling = {"type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0}
    scaling |= {"original_max_position_embeddings": 64}
    shape = read("DeepseekV3ForCausalLM", **DEEPSEEK, q_lora_rank=20, rope_scaling=scaling)
    assert shape.moe is not None
    assert shape.mla is not None
    assert shape.rope is not None
    assert (shape.moe.scoring, shape.moe.score_bias, shape.moe.group_by_two) == ("sigmoid", True, True)
    assert (shape.mla.q_rank, shape.num_positions) == (20, 2560)
    assert shape.rope.attention_factor == 1.0
    assert shape.attn_scale == pytest.approx(24**-0.5 * (0.1 * math.log(40) + 1) ** 2)


def test_bert() -> None:
    shape = read("BertModel", layer_norm_eps=1e-12)
    assert shape.encoder is not None
    assert (shape.encoder.num_token_types, shape.pooling, shape.num_positions) == (2, "cls", 256)
    assert (shape.qkv_bias, shape.activation, shape.rope) == (True, "gelu", None)
    with pytest.raises(ConfigError, match="position_embedding_type must be absolute"):
        read("BertModel", position_embedding_type="relative_key")


def test_an_unknown_activation_is_refused() -> None:
    with pytest.raises(ConfigError, match="activation 'relu2' is not known; known are silu"):
        read("LlamaForCausalLM", hidden_act="relu2")


def test_a_score_counts_its_labels() -> None:
    assert read("LlamaForSequenceClassification", id2label={"0": "reward"}).num_labels == 1
    assert read("LlamaForCausalLM", id2label={"0": "a", "1": "b"}).num_labels == 0
