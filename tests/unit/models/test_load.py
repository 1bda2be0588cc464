"""Tests of banyan.models.load."""

import pytest
import torch

from banyan.models.load import load_state
from banyan.weights.errors import WeightError
from banyan.weights.source import MemorySource
from tests.unit.models.checkpoints import CONFIGS, make_hf, make_model, make_shape


@pytest.mark.parametrize("family", CONFIGS)
def test_every_tensor_is_used_and_every_parameter_filled(family: str) -> None:
    shape = make_shape(family)
    model, tensors = make_model(shape), make_hf(shape)
    for slot in model.slots().values():
        slot.tensor.fill_(float("nan"))
    load_state(model, MemorySource(tensors))
    assert not [path for path, slot in model.slots().items() if slot.tensor.isnan().any()]
    for name in tensors:
        with pytest.raises(WeightError) as caught:
            load_state(model, MemorySource({key: value for key, value in tensors.items() if key != name}))
        assert len(caught.value.missing) == 1
        assert caught.value.unused == caught.value.wrong == []


def test_a_stage_takes_its_share() -> None:
    shape = make_shape("qwen3_moe", mlp_only_layers=[1])
    tensors = make_hf(shape)
    whole, stages = make_model(shape), [make_model(shape, layers) for layers in (range(2), range(2, 3))]
    for model in (whole, *stages):
        load_state(model, MemorySource(tensors))
    shares = [stage.slots() for stage in stages]
    assert not shares[0].keys() & shares[1].keys()
    together = shares[0] | shares[1]
    assert together.keys() == whole.slots().keys()
    for path, slot in whole.slots().items():
        assert torch.equal(together[path].tensor, slot.tensor), path


def test_a_stage_still_refuses_what_belongs_to_no_stage() -> None:
    shape = make_shape("llama")
    stage = make_model(shape, range(1, 2))
    extra = {
        "model.layers.1.self_attn.q_proj.bias": torch.zeros(32),  # of this stage, and not in the model
        "model.layers.9.self_attn.q_proj.weight": torch.zeros(32, 16),  # of no layer
    }
    with pytest.raises(WeightError) as caught:
        load_state(stage, MemorySource(make_hf(shape) | extra))
    assert sorted(caught.value.unused) == [
        "model.layers.1.self_attn.q_proj.bias",
        "model.layers.9.self_attn.q_proj.weight",
    ]


@pytest.mark.parametrize("listed", [False, True])
def test_a_tied_head_is_the_embedding_in_one_stage_and_a_copy_of_it_in_two(listed: bool) -> None:
    """Some checkpoints list the head all the same."""
    shape = make_shape("llama", tie_word_embeddings=True)
    tensors = make_hf(shape)
    assert "lm_head.weight" not in tensors
    if listed:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    whole, last = make_model(shape), make_model(shape, range(1, 3))
    load_state(whole, MemorySource(tensors))
    load_state(last, MemorySource(tensors))
    assert "head.weight" not in whole.slots()
    assert whole.head is not None
    assert torch.equal(dict(whole.head.named_parameters())["weight"], tensors["model.embed_tokens.weight"])
    assert torch.equal(last.slots()["head.weight"].tensor, tensors["model.embed_tokens.weight"])


@pytest.mark.parametrize("prefix", ["model.", "", "language_model.model.", "model.language_model."])
def test_prefixes_differ_from_file_to_file(prefix: str) -> None:
    shape = make_shape("gemma3")
    tensors = {name.replace("model.", prefix, 1): tensor for name, tensor in make_hf(shape).items()}
    tensors["model.vision_tower.embeddings.weight"] = torch.zeros(3)
    model = make_model(shape)
    load_state(model, MemorySource(tensors))
    assert torch.equal(model.slots()["embed.weight"].tensor, tensors[f"{prefix}embed_tokens.weight"])


def test_tensors_that_carry_nothing_are_passed_over() -> None:
    shape = make_shape("llama")
    extra = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(4)}
    load_state(make_model(shape), MemorySource(make_hf(shape) | extra))


def test_further_prediction_layers_of_deepseek_are_passed_over() -> None:
    shape = make_shape("deepseek_v3")
    extra = {"model.layers.3.eh_proj.weight": torch.zeros(4)}
    load_state(make_model(shape), MemorySource(make_hf(shape) | extra))


def test_a_head_for_embeddings_needs_no_lm_head() -> None:
    shape = make_shape("qwen3", architectures=["Qwen3Model"])
    tensors = make_hf(shape)
    load_state(make_model(shape), MemorySource(tensors | {"lm_head.weight": torch.zeros(20, 16)}))
    assert "lm_head.weight" not in tensors
