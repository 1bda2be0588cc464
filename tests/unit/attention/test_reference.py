"""Tests of banyan.attention.reference."""

from itertools import pairwise

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from banyan.attention.reference import ReferenceAttention
from tests.unit.attention.batches import CPU, make_layer, make_world


def test_a_new_prompt_is_causal_attention() -> None:
    world = make_world([0], [13], make_layer())
    q, k, v = (x.transpose(0, 1) for x in (world.q, world.k, world.v))
    wanted = scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.4, enable_gqa=True)
    torch.testing.assert_close(world.run("reference"), wanted.transpose(0, 1))


def test_chunks_give_what_the_whole_gives() -> None:
    layer = make_layer(window=6)
    whole, fresh = make_world([0], [20], layer), make_world([0], [20], layer)
    found = [fresh.part(a, b).run("reference") for a, b in pairwise([0, 5, 19, 20])]
    torch.testing.assert_close(torch.cat(found), whole.run("reference"))


def test_it_must_be_planned() -> None:
    world = make_world([0], [2], make_layer())
    with pytest.raises(RuntimeError, match="before plan"):
        ReferenceAttention(world.pool, CPU).run(world.q, world.k, world.v, world.layer)
