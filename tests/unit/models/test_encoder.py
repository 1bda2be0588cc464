"""Tests of banyan.models.encoder."""

import numpy as np
import pytest
import torch

from banyan.forward import build_batch
from banyan.models.encoder import Encoder
from tests.unit.layers.stubs import CausalAttention, fill
from tests.unit.models.checkpoints import make_model, make_shape


def test_a_row_that_is_not_whole_is_refused() -> None:
    encoder = make_model(make_shape("bert")).body
    assert isinstance(encoder, Encoder)
    fill(encoder)
    batch = build_batch(
        slots=np.array([1], np.int32),
        starts=np.array([4], np.int32),
        lengths=np.array([2], np.int32),
        samples=np.ones(1, np.bool_),
        input_ids=torch.arange(2),
        page_table=torch.ones(2, 8, dtype=torch.int32),
        page_size=4,
    )
    with pytest.raises(ValueError, match="each row whole"):
        encoder.forward(batch, CausalAttention())


def test_each_layer_has_its_kv_buffer() -> None:
    encoder = make_model(make_shape("bert")).body
    assert isinstance(encoder, Encoder)
    assert [layer.attn.layer.index for layer in encoder.stack] == [0, 1, 2]
    assert not any(layer.attn.layer.causal for layer in encoder.stack)
