"""LogprobBuffer: rows in, one packed report a message out."""

import numpy as np

from banyan.plan import RowLogprobs
from banyan.sched.logprobs import LogprobBuffer
from banyan.wire.base import F32, f32, i32
from banyan.wire.request import LogprobSpec


def floats(*values: float) -> F32:
    return np.asarray(values, np.float32)


def row(value: float, *prompt: float, top: int = 2) -> RowLogprobs:
    count = len(prompt)
    return RowLogprobs(
        row=0,
        value=value,
        top_ids=np.arange(top, dtype=np.int32),
        top_values=floats(*[value] * top),
        chosen=floats(value),
        prompt_values=floats(*prompt),
        prompt_top_ids=np.arange(count * top, dtype=np.int32),
        prompt_top_values=floats(*np.repeat(floats(*prompt), top).tolist()),
        prompt_chosen=floats(*prompt),
    )


def test_output_rows_are_packed_in_order_and_forgotten() -> None:
    buffer = LogprobBuffer(LogprobSpec(top=2, token_ids=(9,)))
    buffer.add(row(-1.0), sampled=True)
    buffer.add(row(-2.0), sampled=True)
    packed = buffer.take(5)
    assert packed.row == 5
    assert f32(packed.values).tolist() == [-1.0, -2.0]
    assert (packed.top, i32(packed.top_ids).tolist()) == (2, [0, 1, 0, 1])
    assert f32(packed.top_values).tolist() == [-1.0, -1.0, -2.0, -2.0]
    assert f32(packed.chosen).tolist() == [-1.0, -2.0]
    assert f32(buffer.take(5).values).tolist() == []


def test_a_chunk_that_did_not_sample_brings_prompt_positions_only() -> None:
    buffer = LogprobBuffer(LogprobSpec(start=3, top=2))
    buffer.add(row(0.0, -3.0, -4.0), sampled=False)
    buffer.add(row(-1.0, -5.0), sampled=True)
    packed = buffer.take(0)
    assert packed.prompt_start == 3
    assert f32(packed.prompt_values).tolist() == [-3.0, -4.0, -5.0]
    assert f32(packed.prompt_chosen).tolist() == [-3.0, -4.0, -5.0]
    assert i32(packed.prompt_top_ids).tolist() == [0, 1, 2, 3, 0, 1]
    assert len(f32(packed.prompt_top_values)) == 6
    assert f32(packed.values).tolist() == [-1.0]


def test_prompt_positions_are_reported_once() -> None:
    buffer = LogprobBuffer(LogprobSpec(start=0))
    wanted = [buffer.wants_prompt]
    buffer.add(row(-1.0, -3.0), sampled=True)
    buffer.take(0)
    wanted.append(buffer.wants_prompt)
    assert wanted == [True, False]
    buffer.add(row(-2.0, -3.0), sampled=True)  # computed once more, after a retraction
    assert f32(buffer.take(0).prompt_values).tolist() == []


def test_a_message_before_the_prompt_is_through_does_not_count_as_its_report() -> None:
    buffer = LogprobBuffer(LogprobSpec(start=0))
    buffer.take(0)
    assert buffer.wants_prompt


def test_a_prefill_that_starts_over_forgets_its_rows_but_not_the_output() -> None:
    buffer = LogprobBuffer(LogprobSpec(start=0))
    buffer.add(row(-1.0, -3.0, -4.0), sampled=True)
    buffer.restart()
    buffer.add(row(0.0, -3.0), sampled=False)
    buffer.add(row(-2.0, -4.0), sampled=True)
    packed = buffer.take(0)
    assert f32(packed.prompt_values).tolist() == [-3.0, -4.0]
    assert f32(packed.values).tolist() == [-1.0, -2.0]


def test_who_asks_for_output_only_gets_no_prompt_positions() -> None:
    buffer = LogprobBuffer(LogprobSpec(start=-1))
    assert not buffer.wants_prompt
    buffer.add(row(-1.0, -3.0), sampled=True)
    packed = buffer.take(0)
    assert (packed.prompt_start, packed.prompt_values) == (0, b"")
