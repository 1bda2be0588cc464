"""Tests of banyan.kernels.reference.store_kv."""

import torch

from banyan.kernels.reference.store_kv import store_kv


def test_rows_go_to_their_places_and_nothing_else_changes() -> None:
    buffer = torch.zeros(6, 2, 3, dtype=torch.bfloat16)
    rows = torch.arange(1.0, 13.0).view(2, 2, 3)
    store_kv(buffer, torch.tensor([4, 1]), rows)
    assert torch.equal(buffer[[4, 1]].float(), rows)
    assert not buffer[[0, 2, 3, 5]].any()
