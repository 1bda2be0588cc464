"""Tests of banyan.kernels.reference.embedding."""

import torch

from banyan.kernels.reference.embedding import embedding


def test_it_looks_rows_up() -> None:
    weight = torch.arange(12.0).view(4, 3)
    assert embedding(torch.tensor([3, 0, 3]), weight).tolist() == [[9, 10, 11], [0, 1, 2], [9, 10, 11]]
