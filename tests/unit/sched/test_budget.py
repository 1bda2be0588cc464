"""NewTokenRatio: bolder with every quiet step, set back by a retraction."""

import numpy as np
import pytest

from banyan.sched.budget import NewTokenRatio


def tokens(ratio: NewTokenRatio, remaining: list[int], certain: list[bool]) -> int:
    return ratio.reserve_tokens(np.asarray(remaining, np.int32), np.asarray(certain, np.bool_))


def test_it_decays_to_a_floor_and_no_further() -> None:
    ratio = NewTokenRatio(1.0)
    first = ratio.value
    values = []
    for _ in range(1000):
        ratio.decoded()
        values.append(ratio.value)
    assert values == sorted(values, reverse=True)
    assert 0 < values[-1] < first / 5
    assert values[-1] == values[-2]


def test_a_retraction_raises_it_to_what_was_really_used() -> None:
    ratio = NewTokenRatio(0.1)
    ratio.retracted(written=50, promised=100)
    assert ratio.value == pytest.approx(70 / 101)


def test_a_retraction_never_lowers_it_and_never_asks_for_more_than_all() -> None:
    ratio = NewTokenRatio(1.0)
    before = ratio.value
    ratio.retracted(written=0, promised=10_000)
    assert ratio.value == before
    ratio.retracted(written=100, promised=1)
    assert ratio.value == 1.0


def test_idleness_forgets_what_was_learnt() -> None:
    ratio = NewTokenRatio(0.5)
    before = ratio.value
    ratio.retracted(1000, 1000)
    ratio.idle()
    assert ratio.value == before


def test_conservativeness_is_cut_at_setting_everything_aside() -> None:
    assert NewTokenRatio(10.0).value == 1.0
    assert NewTokenRatio(0.5).value < NewTokenRatio(1.0).value


def test_it_rounds_up_for_each_request_and_keeps_all_where_certain() -> None:
    ratio = NewTokenRatio(1.0)
    assert ratio.value == pytest.approx(0.7)
    assert tokens(ratio, [1, 10, 10], [False, False, True]) == 1 + 7 + 10
    assert tokens(ratio, [], []) == 0


def test_output_far_away_is_not_set_aside_unless_certain() -> None:
    ratio = NewTokenRatio(10.0)
    assert tokens(ratio, [100_000], [False]) == 4096
    assert tokens(ratio, [100_000], [True]) == 100_000
