"""Tests of banyan.memory.store.tables."""

import numpy as np
import torch

from banyan.memory.store.tables import ReqToTokenPool
from banyan.wire.base import I32, i32

NONE = np.zeros(0, np.int32)


def frozen(*numbers: int) -> I32:
    """Make a column as a message has it: in memory that cannot be written."""
    return i32(np.array(numbers, np.int32).tobytes())


def test_changed_entries_are_written() -> None:
    tables = ReqToTokenPool(3, 4, torch.device("cpu"))
    tables.set_pages(frozen(1, 3, 1), frozen(0, 2, 1), frozen(7, 8, 9))
    tables.set_pages(frozen(1), frozen(1), frozen(5))
    tables.set_pages(NONE, NONE, NONE)
    assert tables.page_table.tolist() == [[0, 0, 0, 0], [7, 5, 0, 0], [0, 0, 0, 0], [0, 0, 8, 0]]


def test_last_tokens_stay_with_their_slot() -> None:
    tables = ReqToTokenPool(3, 1, torch.device("cpu"))
    tables.set_last_tokens(torch.tensor([3, 1]), torch.tensor([40, 50]))
    tables.set_last_tokens(torch.tensor([3]), torch.tensor([60]))
    assert tables.get_last_tokens(torch.tensor([1, 2, 3])).tolist() == [50, 0, 60]
