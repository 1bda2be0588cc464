"""Tests of banyan.layers.embedding."""

import torch

from banyan.layers.embedding import VocabEmbedding
from banyan.layers.parameter import Place
from tests.unit.layers.stubs import PLACE, fill


def test_rows_are_looked_up_and_scaled() -> None:
    layer = VocabEmbedding(5, 3, place=PLACE, scale=2.5)
    fill(layer)
    torch.testing.assert_close(layer.forward(torch.tensor([4, 0])), layer.weight[[4, 0]] * 2.5)


def test_the_scale_is_rounded_to_the_models_type() -> None:
    """Gemma's was: the root of 3072 is 55.4256, but 55.5 in bfloat16."""
    layer = VocabEmbedding(1, 1, place=Place(torch.device("cpu"), torch.bfloat16), scale=3072**0.5)
    layer.weight.fill_(64.0)
    assert layer.forward(torch.tensor([0])).item() == 64 * 55.5
