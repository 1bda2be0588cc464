"""Tests of banyan.plan: a Step counts its rows and tokens as executors do."""

import numpy as np

from banyan.plan import RowLogprobs, Step
from banyan.wire.base import I32


def _i32(*values: int) -> I32:
    return np.array(values, np.int32)


def test_an_empty_step_has_empty_columns_of_the_right_type() -> None:
    step = Step(number=3)
    assert step.num_rows == 0
    assert step.num_tokens == 0
    assert step.slots().dtype == np.int32
    assert step.extend_samples.dtype == np.bool_


def test_extend_rows_come_before_decode_rows() -> None:
    step = Step(
        number=0,
        extend_slots=_i32(5, 2),
        extend_starts=_i32(0, 4),
        extend_lengths=_i32(3, 1),
        extend_tokens=_i32(9, 9, 9, 9),
        extend_samples=np.array([True, False]),
        decode_slots=_i32(1, 7),
        decode_positions=_i32(10, 11),
    )
    assert step.slots().tolist() == [5, 2, 1, 7]
    assert (step.num_extend, step.num_rows, step.num_tokens) == (2, 4, 6)


def test_rows_without_prompt_positions_report_none() -> None:
    row = RowLogprobs(row=1, value=-0.5)
    assert len(row.prompt_values) == len(row.top_ids) == len(row.chosen) == 0
    assert row.prompt_values.dtype == np.float32
