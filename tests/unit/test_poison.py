"""Tests of banyan.poison: bystanders survive, the guilty one is found, and within few crashes."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banyan.poison import Tribunal


class World:
    """Requests that run in one process; a step with the poison in it crashes, another gives everybody a token."""

    def __init__(self, keys: range, poison: int) -> None:
        self.tribunal = Tribunal()
        self.alive = set(keys)
        self.poison = poison
        self.crashes = 0
        self.convicted: list[int] = []

    def step(self, newcomers: set[int] | None = None, *, deliberate: bool = False) -> None:
        running = self.alive - self.tribunal.quarantined
        if self.poison in running:
            self.crashes += 1
            guilty = self.tribunal.crashed(running, newcomers or set(), deliberate=deliberate)
            self.convicted += guilty
            self.alive -= set(guilty)
        else:
            for key in sorted(running):
                self.tribunal.progressed(key)

    def settle(self, limit: int = 100) -> None:
        for _ in range(limit):
            if not self.tribunal.active:
                return
            self.step()
        raise AssertionError("the trial does not end")


@settings(deadline=None)
@given(st.integers(1, 64), st.data())
def test_the_guilty_one_alone_is_convicted_within_the_bound(count: int, data: st.DataObject) -> None:
    keys = range(count)
    poison = data.draw(st.sampled_from(keys))
    newcomers = data.draw(st.sets(st.sampled_from(keys)))
    world = World(keys, poison)
    world.step(newcomers)
    world.settle()
    assert world.convicted == [poison]
    assert world.crashes <= 1 + math.ceil(math.log2(count)) + 1
    assert not world.tribunal.quarantined
    assert not world.tribunal.closed


@settings(deadline=None)
@given(st.integers(2, 32), st.data())
def test_two_guilty_ones_are_both_found_and_nobody_else(count: int, data: st.DataObject) -> None:
    first, second = data.draw(st.lists(st.integers(0, count - 1), min_size=2, max_size=2, unique=True))
    tribunal, alive, convicted = Tribunal(), set(range(count)), set[int]()
    for _ in range(200):
        running = alive - tribunal.quarantined
        if running & {first, second}:
            guilty = tribunal.crashed(running, set(), deliberate=False)
            convicted |= set(guilty)
            alive -= convicted
        elif tribunal.active:
            for key in running:
                tribunal.progressed(key)
        else:
            break
    assert convicted == {first, second}
    assert not tribunal.active


def test_newcomers_are_tried_first_and_alone() -> None:
    tribunal = Tribunal()
    assert tribunal.crashed({1, 2, 3, 4}, {3}, deliberate=False) == []
    assert tribunal.on_trial == {3}
    assert tribunal.quarantined == {1, 2, 4}


def test_many_newcomers_are_tried_in_halves() -> None:
    tribunal = Tribunal()
    tribunal.crashed(set(range(10)), set(range(2, 10)), deliberate=False)
    assert tribunal.on_trial == {6, 7, 8, 9}


def test_the_newer_half_is_tried_when_nobody_or_everybody_is_new() -> None:
    for newcomers in (set[int](), {1, 2, 3, 4, 5}):
        tribunal = Tribunal()
        tribunal.crashed({1, 2, 3, 4, 5}, newcomers, deliberate=False)
        assert tribunal.on_trial == {3, 4, 5}
        assert tribunal.quarantined == {1, 2}


def test_the_held_back_enter_when_all_on_trial_have_progressed_or_ended() -> None:
    tribunal = Tribunal()
    tribunal.crashed({1, 2, 3, 4}, set(), deliberate=False)
    assert tribunal.progressed(3) == set()
    assert tribunal.progressed(3) == set()
    assert tribunal.ended(4) == {1, 2}
    assert tribunal.on_trial == {1, 2}
    assert not tribunal.quarantined
    assert tribunal.progressed(1) == set()
    assert tribunal.active
    assert tribunal.progressed(2) == set()
    assert not tribunal.active


def test_a_suspect_that_ends_in_quarantine_is_forgotten() -> None:
    tribunal = Tribunal()
    tribunal.crashed({1, 2}, set(), deliberate=False)
    assert tribunal.ended(1) == set()
    assert tribunal.progressed(2) == set()
    assert not tribunal.active


def test_a_solo_crash_convicts_at_once() -> None:
    tribunal = Tribunal()
    assert tribunal.crashed({7}, {7}, deliberate=False) == [7]
    assert not tribunal.active


def test_a_first_deliberate_crash_holds_nobody_back() -> None:
    tribunal = Tribunal()
    assert tribunal.crashed({1, 2, 3, 4}, {4}, deliberate=True) == []
    assert tribunal.active
    assert not tribunal.quarantined
    for key in (1, 2, 3):
        tribunal.progressed(key)
    assert tribunal.crashed({1, 2, 4}, set(), deliberate=True) == []
    assert not tribunal.quarantined, "two of them have made progress in between"
    assert tribunal.crashed({1, 2, 4}, set(), deliberate=True) == []
    assert tribunal.quarantined, "nobody has: perhaps it is one of them after all"


def test_doubts_end_with_the_requests() -> None:
    tribunal = Tribunal()
    tribunal.crashed({1, 2}, set(), deliberate=True)
    tribunal.progressed(1)
    tribunal.ended(2)
    assert not tribunal.active


def test_a_deliberate_solo_crash_must_happen_twice() -> None:
    tribunal = Tribunal()
    assert tribunal.crashed({7}, set(), deliberate=True) == []
    assert tribunal.on_trial == {7}
    assert tribunal.crashed({7}, set(), deliberate=True) == [7]


def test_progress_between_two_deliberate_crashes_acquits() -> None:
    tribunal = Tribunal()
    for _ in range(5):
        assert tribunal.crashed({7}, set(), deliberate=True) == []
        tribunal.progressed(7)
        assert not tribunal.active


def test_a_crash_between_steps_blames_nobody() -> None:
    tribunal = Tribunal()
    assert tribunal.crashed(set(), set(), deliberate=True) == []
    assert not tribunal.active
    tribunal.crashed({1, 2}, set(), deliberate=False)
    tribunal.crashed(set(), set(), deliberate=True)
    assert tribunal.on_trial == {2}
    assert tribunal.quarantined == {1}


def test_bystanders_of_a_second_crash_are_tried_last() -> None:
    tribunal = Tribunal()
    tribunal.crashed({1, 2, 3, 4}, set(), deliberate=False)
    closed = [tribunal.closed]
    tribunal.crashed({3, 4, 50, 51}, set(), deliberate=False)
    closed.append(tribunal.closed)
    assert closed == [False, True]
    assert tribunal.on_trial == {4}
    assert tribunal.quarantined == {1, 2, 3, 50, 51}
    assert tribunal.progressed(4) == {3}
    assert tribunal.progressed(3) == {1, 2}
    tribunal.progressed(1)
    assert tribunal.progressed(2) == {50, 51}


def test_group_members_outside_the_crashed_step_are_cleared() -> None:
    tribunal = Tribunal()
    tribunal.crashed(set(range(8)), set(), deliberate=False)
    tribunal.crashed({4, 5}, set(), deliberate=False)
    assert tribunal.on_trial == {5}
    assert tribunal.quarantined == {4, 0, 1, 2, 3}


def test_a_crash_without_anybody_on_trial_starts_with_its_own_suspects() -> None:
    tribunal = Tribunal()
    tribunal.crashed({1, 2}, set(), deliberate=False)
    tribunal.crashed({8, 9}, set(), deliberate=False)
    assert tribunal.on_trial == {9}
    assert tribunal.progressed(9) == {8}
    assert tribunal.progressed(8) == {2}
    assert tribunal.progressed(2) == {1}


def test_after_a_conviction_all_others_enter_together() -> None:
    tribunal = Tribunal()
    tribunal.crashed({1, 2, 3, 4, 5, 6, 7, 8}, set(), deliberate=False)
    tribunal.crashed({5, 6, 7, 8}, set(), deliberate=False)
    tribunal.crashed({7, 8}, set(), deliberate=False)
    assert tribunal.crashed({8}, set(), deliberate=False) == [8]
    assert not tribunal.quarantined
    assert not tribunal.closed
    assert tribunal.on_trial == {1, 2, 3, 4, 5, 6, 7}


@pytest.mark.parametrize("count", [2, 16, 64])
def test_arrivals_that_mix_in_do_not_hide_the_guilty_one(count: int) -> None:
    """New requests run beside the group until the tribunal closes its doors."""
    tribunal, alive, next_key = Tribunal(), set(range(count)), count
    poison, crashes = 0, 0
    outside: set[int] = set()
    for _ in range(200):
        arrival, next_key = next_key, next_key + 1
        (outside if tribunal.closed else alive).add(arrival)
        if not tribunal.closed:
            alive |= outside
            outside = set()
        running = alive - tribunal.quarantined
        if poison in running:
            crashes += 1
            if tribunal.crashed(running, set(), deliberate=False):
                break
        else:
            for key in running:
                tribunal.progressed(key)
    assert crashes <= 1 + math.ceil(math.log2(count + 1)) + 1


def test_a_trial_whose_last_member_leaves_is_over() -> None:
    tribunal = Tribunal()
    tribunal.crashed({1, 2}, set(), deliberate=False)
    tribunal.crashed({2}, set(), deliberate=True)
    tribunal.crashed({1, 2}, set(), deliberate=False)
    closed = [tribunal.closed]
    for key in (2, 1):
        tribunal.ended(key)
    closed.append(tribunal.closed)
    assert closed == [True, False]
    assert not tribunal.quarantined


def test_tribunals_that_see_different_requests_agree_on_who_enters_first() -> None:
    """Two fronts, tens and units: each hears of every crash, but only of the progress of its own requests."""
    fronts = {rank: Tribunal(rank=lambda key: key // 10) for rank in (0, 1)}
    alive, poison, crashes = {1, 2, 11, 12}, 2, 0
    while poison in alive:
        running = {key for key in alive if key not in fronts[key // 10].quarantined}
        if poison in running:
            crashes += 1
            alive -= {key for f in fronts.values() for key in f.crashed(running, set(), deliberate=False)}
            continue
        for key in running:
            fronts[key // 10].progressed(key)
        for rank, tribunal in fronts.items():  # strangers are believed innocent after a while
            for key in [key for key in tribunal.on_trial if key // 10 != rank]:
                tribunal.ended(key)
    assert alive == {1, 11, 12}
    assert crashes <= 6
