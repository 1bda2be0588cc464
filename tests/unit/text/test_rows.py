"""Tests of banyan.text.rows."""

from banyan.text.rows import Row, cut_logprobs, pack
from banyan.wire.output import Logprobs
from tests.unit.text.wiring import Out, ended, floats, ints, rows_of


def test_rows_become_columns() -> None:
    part = Logprobs(row=9, values=floats(-1))
    message = pack(3, [Row(1, 0, 4, [5, 6], "ab", 7), Row(2, 1, 0, [8], "", 0, ended(1), part)])
    assert message.replica == 3
    first, second = rows_of(message)
    assert first == Out(1, 4, [5, 6], "ab", 7)
    assert (second.epoch, second.finished is not None, second.logprobs) == (1, True, Logprobs(row=1, values=floats(-1)))
    assert rows_of(pack(0, [])) == []


def test_logprobs_are_cut_in_all_columns() -> None:
    part = Logprobs(
        row=0,
        values=floats(1, 2, 3),
        top=2,
        top_ids=ints(1, 2, 3, 4, 5, 6),
        top_values=floats(1, 2, 3, 4, 5, 6),
        chosen=floats(7, 8, 9),
        prompt_values=floats(5),
    )
    assert cut_logprobs(part, 0, 3) is part
    cut = cut_logprobs(part, 1, 2)
    assert (cut.values, cut.top_ids, cut.top_values, cut.chosen) == (
        floats(2),
        ints(3, 4),
        floats(3, 4),
        floats(8),
    )
    assert cut.prompt_values == floats(5)
    empty = Logprobs(row=0, values=b"")
    assert cut_logprobs(empty, 0, 0) is empty
