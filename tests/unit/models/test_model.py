"""Tests of banyan.models.model."""

import torch

from banyan.models.heads import LMHead
from banyan.models.spec import decoder_spec
from tests.unit.layers.stubs import CausalAttention, fill
from tests.unit.models.batches import row
from tests.unit.models.checkpoints import make_model, make_shape


def test_it_is_its_body() -> None:
    model = make_model(make_shape("llama"))
    fill(model)
    found = model.forward(row(3), CausalAttention())
    assert torch.equal(found, model.body.forward(row(3), CausalAttention()))
    assert model.spec == decoder_spec(make_shape("llama"))


def test_every_parameter_has_one_path() -> None:
    model = make_model(make_shape("llama"))
    assert {id(slot.tensor) for slot in model.slots().values()} == {id(value) for value in model.parameters()}
    assert {"embed.weight", "layers.2.mlp.down.weight", "norm.weight", "head.weight"} <= model.slots().keys()


def test_a_tied_head_has_no_path_of_its_own() -> None:
    model = make_model(make_shape("llama", tie_word_embeddings=True))
    assert isinstance(model.head, LMHead)
    assert model.head.weight is model.slots()["embed.weight"].tensor
    assert "head.weight" not in model.slots()
