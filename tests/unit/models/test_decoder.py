"""Tests of banyan.models.decoder."""

import pytest
import torch
from torch import Tensor

from banyan.attention.base import AttentionLayer
from banyan.forward import ForwardBatch
from banyan.models.decoder import Decoder
from tests.unit.layers.stubs import CausalAttention, fill
from tests.unit.models.batches import row
from tests.unit.models.checkpoints import make_model, make_shape


def decoder(family: str, layers: range | None = None) -> Decoder:
    """Make a decoder with parameters that depend on their path alone."""
    body = make_model(make_shape(family), layers).body
    assert isinstance(body, Decoder)
    fill(body)
    return body


def test_only_the_first_stage_embeds_and_only_the_last_one_normalises() -> None:
    stages = [decoder("llama", layers) for layers in (range(1), range(1, 2), range(2, 3))]
    assert [stage.embed is not None for stage in stages] == [True, False, False]
    assert [stage.norm is not None for stage in stages] == [False, False, True]
    assert [list(stage.layers) for stage in stages] == [["0"], ["1"], ["2"]]


def test_each_stage_counts_its_kv_buffers_from_zero() -> None:
    stage = decoder("llama", range(1, 3))
    assert [layer.attn.layer.index for layer in stage.stack] == [0, 1]


@pytest.mark.parametrize("family", ["llama", "gemma2", "deepseek_v3", "gpt_oss"])
def test_stages_in_a_row_are_the_whole(family: str) -> None:
    whole = decoder(family)
    stages = [decoder(family, layers) for layers in (range(2), range(2, 3))]
    for stage in stages:
        stage.load_state_dict({name: value for name, value in whole.state_dict().items() if name in stage.state_dict()})
    batch = row(6)
    hidden = stages[0].forward(batch, CausalAttention())
    found = stages[1].forward(batch, CausalAttention(), hidden)
    torch.testing.assert_close(found, whole.forward(batch, CausalAttention()))


def test_a_later_stage_must_be_given_something() -> None:
    with pytest.raises(ValueError, match="hidden states"):
        decoder("llama", range(1, 3)).forward(row(2), CausalAttention())


class Nothing:
    """A backend for a step without tokens."""

    def plan(self, batch: ForwardBatch) -> None:
        """Nothing to plan."""

    def run(self, q: Tensor, k: Tensor, v: Tensor, layer: AttentionLayer) -> Tensor:
        """Nothing to see."""
        assert len(q) == len(k) == len(v) == 0
        return q.new_empty(0, layer.num_heads, layer.value_dim)


@pytest.mark.parametrize("family", ["llama", "mixtral", "deepseek_v2", "deepseek_v3", "gpt_oss"])
def test_an_idle_step_passes(family: str) -> None:
    assert decoder(family).forward(row(0), Nothing()).shape == (0, 16)
