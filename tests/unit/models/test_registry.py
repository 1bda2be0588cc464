"""Tests of banyan.models.registry."""

import pytest
import torch

from banyan.models.encoder import Encoder
from banyan.models.heads import LMHead, PoolHead, ScoreHead
from banyan.models.names import Family
from banyan.models.registry import FAMILIES, build_model, get_family
from tests.unit.models.checkpoints import CONFIGS, make_model, make_shape

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", FAMILIES)
def test_every_entry_is_a_family(name: str) -> None:
    assert isinstance(get_family(name), Family)


def test_every_architecture_that_can_be_read_can_be_built() -> None:
    assert {make_shape(family).family for family in CONFIGS} == set(CONFIGS) == set(FAMILIES)


def test_an_unknown_family_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(KeyError, match=r"no model family 'gpt2'; there are bert, .*qwen3_moe"):
        get_family("gpt2")


@pytest.mark.parametrize(
    ("family", "architecture", "head"),
    [
        ("llama", "LlamaForCausalLM", LMHead),
        ("llama", "LlamaModel", PoolHead),
        ("llama", "LlamaForSequenceClassification", ScoreHead),
        ("bert", "BertModel", PoolHead),
        ("bert", "BertForSequenceClassification", ScoreHead),
    ],
)
def test_the_head_is_what_the_model_is_for(family: str, architecture: str, head: type) -> None:
    assert type(make_model(make_shape(family, architectures=[architecture])).head) is head


def test_only_the_last_stage_has_a_head() -> None:
    shape = make_shape("llama")
    assert make_model(shape, range(2)).head is None
    assert make_model(shape, range(2, 3)).head is not None


def test_an_encoder_is_one_stage_and_does_not_generate() -> None:
    shape = make_shape("bert")
    assert isinstance(make_model(shape).body, Encoder)
    with pytest.raises(ValueError, match="cannot be cut into stages"):
        make_model(shape, range(1))
    with pytest.raises(ValueError, match="cannot generate"):
        make_model(make_shape("bert", architectures=["BertForCausalLM"]))


def test_parameters_have_the_type_that_is_asked_for() -> None:
    model = build_model(make_shape("llama"), context_length=8, device=CPU, dtype=torch.bfloat16)
    assert {slot.tensor.dtype for slot in model.slots().values()} == {torch.bfloat16}
