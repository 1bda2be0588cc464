"""Tests of banyan.config.conflicts."""

import pytest

from banyan.config.conflicts import conflicts
from banyan.config.load import load
from banyan.config.spec import EngineConfig


def said(*argv: str) -> list[str]:
    return list(conflicts(load(argv)))


def test_the_defaults_have_no_conflict() -> None:
    assert list(conflicts(EngineConfig())) == []


@pytest.mark.parametrize(
    ("argv", "first", "second"),
    [
        ("--disable-radix-cache --schedule-policy lpm", "--prefix-cache chunk", "--schedule-policy lpm"),
        ("--disable-radix-cache --schedule-policy dfs-weight", "--prefix-cache chunk", "--schedule-policy dfs-weight"),
        ("--disable-radix-cache --dp-size 2", "--prefix-cache chunk", "--load-balance-method prefix_aware"),
        ("--disable-radix-cache --radix-eviction-policy lfu", "--prefix-cache chunk", "--radix-eviction-policy lfu"),
        ("--record out --disaggregation-mode prefill", "--record", "--disaggregation-mode prefill"),
        ("--recovery restart --recovery.budget 0", "--recovery restart", "--recovery.budget 0"),
    ],
)
def test_both_settings_of_a_conflict_are_named(argv: str, first: str, second: str) -> None:
    [sentence] = said(*argv.split())
    assert first in sentence
    assert second in sentence


@pytest.mark.parametrize(
    "argv",
    [
        "--disable-radix-cache",  # prefix_aware is the default, but one replica needs no balance
        "--disable-radix-cache --dp-size 2 --load-balance-method shortest_queue",
        "--schedule-policy lpm --radix-eviction-policy lfu --dp-size 2",
        "--recovery stop --recovery.budget 0",
        "--disaggregation-mode decode --pp-size 2",
    ],
)
def test_what_works_together_is_left_alone(argv: str) -> None:
    assert said(*argv.split()) == []


def test_all_conflicts_are_told_at_once() -> None:
    assert len(said("--disable-radix-cache", "--schedule-policy", "lpm", "--recovery.budget", "0")) == 2
