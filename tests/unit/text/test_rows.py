"""Tests of banyan.text.rows."""

from banyan.text.rows import Row, cut_hidden_states, cut_logprobs, pack
from banyan.wire.output import HiddenStates, Logprobs
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
    assert cut_logprobs(empty, 1, 0) is empty


def test_hidden_states_are_cut_by_tokens() -> None:
    part = HiddenStates(row=3, dim=2, values=floats(1, 2, 3, 4, 5, 6))
    assert cut_hidden_states(part, 0, 3) == part
    assert cut_hidden_states(part, 1, 2) == HiddenStates(row=3, dim=2, values=floats(3, 4))
    assert cut_hidden_states(part, 4, 3).values == b""


def test_a_row_is_cut_with_all_that_is_said_of_its_tokens() -> None:
    row = Row(1, 0, 4, [5, 6, 7], logprobs=Logprobs(row=0, values=floats(1, 2, 3)))
    row.hidden_states = HiddenStates(row=0, dim=1, values=floats(1, 2, 3))
    row.cut(1, 2)
    assert (row.position, row.tokens) == (5, [6])
    (out,) = rows_of(pack(0, [row]))
    assert out.logprobs is not None
    assert out.hidden_states is not None
    assert (out.logprobs.values, out.hidden_states.values) == (floats(2), floats(2))
