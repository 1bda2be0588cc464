"""Tests of banyan.kernels.reference.rope."""

import pytest
import torch
from torch import Tensor

from banyan.kernels.reference.rope import rope


def by_complex_numbers(x: Tensor, turns: Tensor, interleaved: bool) -> Tensor:
    """Turn pairs as complex numbers: an independent way."""
    half = turns.shape[-1]
    turning = x[..., : 2 * half]
    pairs = turning.view(*x.shape[:-1], half, 2) if interleaved else turning.view(*x.shape[:-1], 2, half).mT
    turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones(()), turns)[:, None])
    flat = turned.flatten(-2) if interleaved else turned.mT.flatten(-2)
    return torch.cat((flat, x[..., 2 * half :]), dim=-1)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("dim", "rotary_dim"), [(8, 8), (12, 8), (2, 2)])
def test_it_turns_pairs(interleaved: bool, dim: int, rotary_dim: int) -> None:
    torch.manual_seed(0)
    q, k, turns = torch.randn(5, 4, dim), torch.randn(5, 2, dim), torch.randn(5, rotary_dim // 2) * 9
    found = rope(q, k, turns.cos(), turns.sin(), interleaved)
    for turned, plain in zip(found, (q, k), strict=True):
        torch.testing.assert_close(turned, by_complex_numbers(plain, turns, interleaved))


@pytest.mark.parametrize("interleaved", [False, True])
def test_products_depend_on_the_distance_alone(interleaved: bool) -> None:
    torch.manual_seed(0)
    q, k, speed = torch.randn(1, 1, 8).expand(9, 1, 8), torch.randn(1, 1, 8).expand(9, 1, 8), torch.rand(4)
    turns = torch.arange(9.0)[:, None] * speed
    turned_q, turned_k = rope(q, k, turns.cos(), turns.sin(), interleaved)
    products = turned_q[:, 0] @ turned_k[:, 0].T
    for distance in range(-8, 9):
        diagonal = products.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
