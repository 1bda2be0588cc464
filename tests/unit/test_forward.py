"""Tests of banyan.forward."""

import numpy as np
import pytest
import torch

from banyan.forward import ForwardBatch, ForwardMode, build_batch
from banyan.wire.base import i32


def make(slots: list[int], starts: list[int], lengths: list[int], samples: list[bool]) -> ForwardBatch:
    """Lay out rows over a table in which slot s has the pages 10 s, 10 s + 1 ..."""
    table = torch.arange(4)[:, None] * 10 + torch.arange(8)
    return build_batch(
        slots=np.array(slots, np.int32),
        starts=np.array(starts, np.int32),
        lengths=np.array(lengths, np.int32),
        samples=np.array(samples, np.bool_),
        input_ids=torch.arange(sum(lengths)),
        page_table=table.to(torch.int32),
        page_size=4,
    )


def test_rows_are_laid_out_behind_one_another() -> None:
    batch = make([2, 1, 3], [0, 3, 9], [2, 6, 1], [True, False, True])
    assert batch.mode is ForwardMode.MIXED
    assert batch.positions.tolist() == [0, 1, 3, 4, 5, 6, 7, 8, 9]
    # page * 4 + offset; slot 1 has pages 10 and on
    assert batch.out_loc.tolist() == [80, 81, 43, 44, 45, 46, 47, 48, 129]
    assert batch.row_starts.tolist() == batch.row_starts_np.tolist() == [0, 2, 8, 9]
    assert batch.prefix_lens.tolist() == batch.prefix_lens_np.tolist() == [0, 3, 9]
    assert batch.seq_lens.tolist() == batch.seq_lens_np.tolist() == [2, 9, 10]
    assert batch.row_slots.tolist() == batch.row_slots_np.tolist() == [2, 1, 3]
    assert batch.sample_index.tolist() == [1, 8]
    assert batch.sample_rows_np.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("lengths", "mode"),
    [
        ([1, 1], ForwardMode.DECODE),
        ([2, 5], ForwardMode.EXTEND),
        ([2, 1], ForwardMode.MIXED),
        ([], ForwardMode.IDLE),
    ],
)
def test_the_mode_is_what_the_rows_feed(lengths: list[int], mode: ForwardMode) -> None:
    count = len(lengths)
    batch = make(list(range(1, count + 1)), [0] * count, lengths, [True] * count)
    assert batch.mode is mode
    assert len(batch.positions) == len(batch.out_loc) == sum(lengths)


def test_columns_may_lie_in_memory_that_cannot_be_written() -> None:
    """Columns of a message do; torch warns when it is given such memory, and warnings are errors."""
    slots = i32(np.array([1, 2], np.int32).tobytes())
    batch = build_batch(
        slots=slots,
        starts=slots,
        lengths=slots,
        samples=np.ones(2, np.bool_),
        input_ids=torch.zeros(3, dtype=torch.int64),
        page_table=torch.ones(3, 2, dtype=torch.int32),
        page_size=4,
    )
    assert batch.positions.tolist() == [1, 2, 3]


def test_index_columns_have_the_types_that_ops_index_with() -> None:
    batch = make([1], [0], [3], [True])
    wide = (batch.positions, batch.out_loc, batch.row_slots, batch.sample_index)
    assert {column.dtype for column in wide} == {torch.int64}
    assert {column.dtype for column in (batch.row_starts, batch.prefix_lens, batch.seq_lens)} == {torch.int32}
