"""All loops, alone and as prefill-decode pairs, give the oracle's tokens, and leave nothing behind.

Loops {normal, overlap, pipeline of 4, deep overlap of 4} x caches x page sizes x chunk sizes x policies x grammar x
{nothing, aborts, resumes, failures, forced retractions} x KV pools down to a single request.
"""

import random

import pytest

from tests.equal.cases import LOOPS, PAGES, Case, pair_cases, run, unified_cases
from tests.fakes.count import Count

FAST = 80  # cases of each kind in the quick check


def run_all(cases: list[Case]) -> int:
    """Run cases; on failure, say which one. Returns the number of retractions."""
    retractions = 0
    for case in cases:
        try:
            retractions += run(case)
        except Exception as error:
            raise AssertionError(f"{case} failed: {error}") from error
    return retractions


def sample(cases: list[Case]) -> list[Case]:
    return random.Random(0).sample(cases, FAST)


def test_some_servers_give_the_oracles_tokens(count: Count) -> None:
    retractions = run_all(sample(unified_cases()))
    count("loops, quick", FAST)
    assert retractions > FAST / 4  # small pools do force retractions


def test_some_pairs_give_the_oracles_tokens(count: Count) -> None:
    retractions = run_all(sample(pair_cases()))
    count("pairs, quick", FAST)
    assert retractions > FAST / 4


@pytest.mark.slow
@pytest.mark.parametrize("page_size", PAGES)
@pytest.mark.parametrize("loop", LOOPS)
def test_all_servers_give_the_oracles_tokens(loop: str, page_size: int, count: Count) -> None:
    cases = [case for case in unified_cases() if (case.loop, case.page_size) == (loop, page_size)]
    run_all(cases)
    count("loops", len(cases))


@pytest.mark.slow
@pytest.mark.parametrize("second", LOOPS)
@pytest.mark.parametrize("first", LOOPS)
def test_all_pairs_give_the_oracles_tokens(first: str, second: str, count: Count) -> None:
    cases = [case for case in pair_cases() if (case.loop, case.second) == (first, second)]
    run_all(cases)
    count("pairs", len(cases))
