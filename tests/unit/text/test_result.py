"""Tests of banyan.text.result."""

import math

import pytest

from banyan.text.result import EndInfo, HiddenLog, LogprobLog, MetaInfo, end_info
from banyan.wire.output import FinishReason, HiddenStates, Logprobs
from banyan.wire.request import LogprobSpec
from tests.unit.text.wiring import floats, ints


@pytest.mark.parametrize(
    ("reason", "info"),
    [
        (FinishReason(kind="stop", matched=256), {"type": "stop", "matched": 256}),
        (FinishReason(kind="length"), {"type": "length", "length": 7}),
        (FinishReason(kind="abort", message="enough"), {"type": "abort", "message": "enough"}),
        (
            FinishReason(kind="error", message="broken", status=500),
            {"type": "error", "message": "broken", "status": 500},
        ),
    ],
)
def test_ends(reason: FinishReason, info: EndInfo) -> None:
    assert end_info(reason, 7) == info


def test_logprobs_add_up_over_chunks() -> None:
    log = LogprobLog(LogprobSpec(start=1, top=2, token_ids=(5,)))
    first = Logprobs(
        row=0,
        values=floats(-1),
        top=2,
        top_ids=ints(8, 9),
        top_values=floats(-1, -2),
        chosen=floats(-4),
        prompt_start=1,
        prompt_values=floats(math.nan, -3),
        prompt_top_ids=ints(1, 2, 3, 4),
        prompt_top_values=floats(-1, -2, -3, -4),
        prompt_chosen=floats(-5, -6),
    )
    log.add(first)
    log.add(Logprobs(row=0, values=floats(-7), top=2, top_ids=ints(6, 7), top_values=floats(-7, -8), chosen=floats(-9)))
    log.add(Logprobs(row=0, values=b"", prompt_values=floats(1)))
    meta: MetaInfo = {}
    log.put(meta, [8, 6], [10, 11, 12])
    assert meta == {
        "output_token_logprobs": [(-1.0, 8, None), (-7.0, 6, None)],
        "output_top_logprobs": [[(-1.0, 8, None), (-2.0, 9, None)], [(-7.0, 6, None), (-8.0, 7, None)]],
        "output_token_ids_logprobs": [[(-4.0, 5, None)], [(-9.0, 5, None)]],
        "input_token_logprobs": [(None, 11, None), (-3.0, 12, None)],
        "input_top_logprobs": [[(-1.0, 1, None), (-2.0, 2, None)], [(-3.0, 3, None), (-4.0, 4, None)]],
        "input_token_ids_logprobs": [[(-5.0, 5, None)], [(-6.0, 5, None)]],
    }


def test_only_what_was_asked_for_is_told() -> None:
    log = LogprobLog(LogprobSpec())
    log.add(Logprobs(row=0, values=floats(-1)))
    meta: MetaInfo = {}
    log.put(meta, [8], [1])
    assert meta == {"output_token_logprobs": [(-1.0, 8, None)]}


def test_hidden_states_are_a_list_for_each_token() -> None:
    log = HiddenLog()
    meta: MetaInfo = {}
    log.put(meta)
    assert meta == {"hidden_states": []}
    log.add(HiddenStates(row=0, dim=2, values=floats(1, 2)))
    log.add(HiddenStates(row=3, dim=2, values=floats(3, 4, 5, 6)))
    log.put(meta)
    assert meta == {"hidden_states": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]}
