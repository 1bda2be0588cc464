"""Ends: by end-of-text, stop tokens and length, for many rows at once and one by one."""

import numpy as np
import pytest

from banyan.sched.columns import Columns
from banyan.sched.finish import ended_before, ends, ends_by_rare_stop, reason
from banyan.sched.req import Req
from banyan.wire.output import FinishReason
from banyan.wire.request import SamplingParams
from banyan.worker.oracle import EOS
from tests.fakes.world import embed, generate

EOS_IDS = (EOS,)


def running(sampling: SamplingParams, output: list[int]) -> tuple[Columns, Req]:
    """Put a request into slot 1 with its prompt [1, 2] and some output, the last of it just sampled."""
    columns, req = Columns(2, 64), Req(generate(1, [1, 2], sampling=sampling), 1, 0.0, 1.0)
    req.slot = 1
    stop_ids = sampling.stop_token_ids + (() if sampling.ignore_eos else EOS_IDS)
    columns.fill(1, req, stop_ids, 1)
    columns.tokens[1, 2 : 2 + len(output)] = output
    columns.known[1] = 2 + len(output)
    return columns, req


def judge(sampling: SamplingParams, output: list[int]) -> FinishReason | None:
    """Tell why a request ends with the last of its output, as a commit does."""
    columns, req = running(sampling, output)
    slots, token = np.asarray([1], np.int32), output[-1]
    by_column = bool(ends(columns, slots, np.asarray([token], np.int32))[0])
    if by_column or ends_by_rare_stop(req, columns, token, EOS_IDS):
        return reason(columns, req, token, EOS_IDS)
    return None


def test_end_of_text_ends() -> None:
    assert judge(SamplingParams(), [5, EOS]) == FinishReason(kind="stop", matched=EOS)
    assert judge(SamplingParams(), [5, 6]) is None


def test_end_of_text_is_a_token_like_any_other_when_ignored() -> None:
    assert judge(SamplingParams(ignore_eos=True), [5, EOS]) is None


def test_an_ignored_end_of_text_that_is_a_stop_token_ends_all_the_same() -> None:
    sampling = SamplingParams(ignore_eos=True, stop_token_ids=(EOS,))
    assert judge(sampling, [EOS]) == FinishReason(kind="stop", matched=EOS)


@pytest.mark.parametrize("token", [10, 13, 14, 15, EOS])
def test_every_stop_token_ends_however_many_there_are(token: int) -> None:
    sampling = SamplingParams(stop_token_ids=(10, 11, 12, 13, 14, 15))
    assert judge(sampling, [5, token]) == FinishReason(kind="stop", matched=token)


def test_the_length_ends() -> None:
    assert judge(SamplingParams(max_new_tokens=3), [5, 6]) is None
    assert judge(SamplingParams(max_new_tokens=3), [5, 6, 7]) == FinishReason(kind="length")


def test_a_stop_token_counts_before_the_length() -> None:
    assert judge(SamplingParams(max_new_tokens=2), [5, EOS]) == FinishReason(kind="stop", matched=EOS)


@pytest.mark.parametrize("stop", [(10,), (1, 2, 3, 4, 10)])
def test_stop_tokens_count_only_beyond_the_least_length(stop: tuple[int, ...]) -> None:
    sampling = SamplingParams(min_new_tokens=2, stop_token_ids=stop, max_new_tokens=9)
    assert judge(sampling, [10]) is None
    assert judge(sampling, [10, 10]) is None
    assert judge(sampling, [10, 10, 10]) == FinishReason(kind="stop", matched=10)


def test_at_the_limit_a_stop_token_below_the_least_length_is_just_the_last() -> None:
    assert judge(SamplingParams(min_new_tokens=2, max_new_tokens=2), [5, EOS]) == FinishReason(kind="length")


def test_rows_are_judged_each_by_its_own_limits() -> None:
    columns = Columns(3, 64)
    for slot, sampling in enumerate((SamplingParams(max_new_tokens=1), SamplingParams(), SamplingParams()), start=1):
        req = Req(generate(slot, [1, 2], sampling=sampling), 1, 0.0, 1.0)
        req.slot = slot
        columns.fill(slot, req, EOS_IDS, 1)
        columns.known[slot] = 3
    slots, tokens = np.asarray([3, 1, 2], np.int32), np.asarray([EOS, 7, 7], np.int32)
    assert ends(columns, slots, tokens).tolist() == [True, True, False]


def back(sampling: SamplingParams, committed: list[int]) -> FinishReason | None:
    return ended_before(Req(generate(1, [1, 2], sampling=sampling, committed=committed), 1, 0.0, 1.0), EOS_IDS)


def test_a_request_that_comes_back_complete_needs_no_more() -> None:
    assert back(SamplingParams(max_new_tokens=2), [5, 6]) == FinishReason(kind="length")
    assert back(SamplingParams(), [5, EOS]) == FinishReason(kind="stop", matched=EOS)
    assert back(SamplingParams(max_new_tokens=2), [5, EOS]) == FinishReason(kind="stop", matched=EOS)
    assert back(SamplingParams(stop_token_ids=(1, 2, 3, 4, 5)), [5]) == FinishReason(kind="stop", matched=5)


def test_a_request_that_comes_back_unfinished_goes_on() -> None:
    assert back(SamplingParams(), []) is None
    assert back(SamplingParams(max_new_tokens=0), []) is None
    assert back(SamplingParams(max_new_tokens=3), [5, 6]) is None
    assert back(SamplingParams(ignore_eos=True), [5, EOS]) is None
    assert back(SamplingParams(min_new_tokens=2), [5, EOS]) is None
    assert ended_before(Req(embed(1, [1, EOS]), 1, 0.0, 1.0), EOS_IDS) is None
