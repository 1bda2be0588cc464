"""Orderings: who goes first under each policy, and that nobody waits for ever."""

import pytest

from banyan.sched.limits import Policy
from banyan.sched.policy import cache_aware_order, is_cache_aware, queue_key
from banyan.sched.req import Req
from tests.fakes.world import generate

POLICIES: list[Policy] = ["fcfs", "lpm", "dfs-weight", "lof", "random", "priority"]


def waiting(number: int, *, max_new: int = 8, priority: int = 0, at: float = 0.0, first: int = 0) -> Req:
    return Req(generate(number, [first, 2, 3, 4], max_new, priority=priority), number, at, 100.0)


def order(policy: Policy, reqs: list[Req], seed: int = 0) -> list[int]:
    return [req.number for req in sorted(reqs, key=lambda req: queue_key(policy, req, seed))]


@pytest.mark.parametrize("policy", ["fcfs", "lpm", "dfs-weight"])
def test_arrival_decides(policy: Policy) -> None:
    reqs = [waiting(3, max_new=9), waiting(1, priority=-5), waiting(2, priority=7)]
    assert order(policy, reqs) == [1, 2, 3]


def test_the_longest_output_goes_first() -> None:
    assert order("lof", [waiting(1, max_new=5), waiting(2, max_new=50), waiting(3, max_new=50)]) == [2, 3, 1]


def test_the_highest_priority_goes_first() -> None:
    assert order("priority", [waiting(1), waiting(2, priority=3), waiting(3, priority=-1), waiting(4)]) == [2, 1, 4, 3]


def test_chance_is_a_function_of_the_seed() -> None:
    reqs = [waiting(n) for n in range(1, 40)]
    assert order("random", reqs, 1) == order("random", list(reversed(reqs)), 1)
    assert order("random", reqs, 1) != order("random", reqs, 2)
    assert order("random", reqs, 1) != list(range(1, 40))


@pytest.mark.parametrize("policy", POLICIES)
def test_who_has_run_already_goes_before_all_others(policy: Policy) -> None:
    reqs = [waiting(1, max_new=90, priority=9), waiting(2), waiting(3)]
    reqs[2].retractions = reqs[1].retractions = 1
    assert order(policy, reqs) == [2, 3, 1]


def test_among_those_who_have_run_priority_still_counts() -> None:
    reqs = [waiting(1), waiting(2, priority=5)]
    for req in reqs:
        req.retractions = 1
    assert order("priority", reqs) == [2, 1]


def test_only_two_policies_look_at_the_cache() -> None:
    assert [policy for policy in POLICIES if is_cache_aware(policy)] == ["lpm", "dfs-weight"]


def by_cache(policy: Policy, reqs: list[Req], cached: dict[int, int], now: float) -> list[int]:
    return [req.number for req in cache_aware_order(policy, reqs, lambda req: cached[req.number], now)]


def test_lpm_puts_the_longest_cached_prefix_first() -> None:
    reqs = [waiting(n) for n in range(1, 5)]
    assert by_cache("lpm", reqs, {1: 0, 2: 4, 3: 2, 4: 4}, 1.0) == [2, 4, 3, 1]


def test_lpm_lets_old_requests_go_first_by_age() -> None:
    reqs = [waiting(1, at=0.0), waiting(2, at=0.5), waiting(3, at=5.0), waiting(4, at=9.0)]
    cached = {1: 0, 2: 4, 3: 0, 4: 4}
    assert by_cache("lpm", reqs, cached, 9.9) == [2, 4, 1, 3]
    assert by_cache("lpm", reqs, cached, 10.0) == [1, 2, 4, 3]
    assert by_cache("lpm", reqs, cached, 30.0) == [1, 2, 3, 4]


def test_lpm_counts_the_retracted_as_old() -> None:
    reqs = [waiting(1), waiting(2)]
    reqs[1].retractions = 1
    assert by_cache("lpm", reqs, {1: 4, 2: 0}, 0.0) == [2, 1]


def test_dfs_weight_keeps_families_together_and_larger_ones_first() -> None:
    reqs = [waiting(1, first=7), waiting(2, first=8), waiting(3, first=7), waiting(4, first=8), waiting(5, first=8)]
    cached = dict.fromkeys(range(1, 6), 4)
    assert by_cache("dfs-weight", reqs, cached, 0.0) == [2, 4, 5, 1, 3]


def test_dfs_weight_between_equals_takes_the_longer_prefix_then_the_older() -> None:
    reqs = [waiting(1, first=7), waiting(2, first=8), waiting(3, first=9)]
    assert by_cache("dfs-weight", reqs, {1: 2, 2: 4, 3: 2}, 0.0) == [2, 1, 3]


def test_dfs_weight_lets_a_family_with_an_old_member_go_first() -> None:
    reqs = [waiting(1, first=7, at=0.0), waiting(2, first=8, at=8.0), waiting(3, first=8, at=8.0)]
    cached = dict.fromkeys(range(1, 4), 4)
    assert by_cache("dfs-weight", reqs, cached, 9.0) == [2, 3, 1]
    assert by_cache("dfs-weight", reqs, cached, 10.0) == [1, 2, 3]
