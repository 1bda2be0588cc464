"""Counting of random cases: a test that runs many says how many, and the summary of the run adds them up."""

from collections import Counter

import pytest

from tests.fakes.count import Count

_CASES = pytest.StashKey[Counter[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Start to count."""
    config.stash[_CASES] = Counter()


@pytest.fixture
def count(request: pytest.FixtureRequest) -> Count:
    """Give a test the way to say what it ran."""

    def add(kind: str, cases: int) -> None:
        request.config.stash[_CASES][kind] += cases

    return add


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was run."""
    for kind, cases in sorted(config.stash[_CASES].items()):
        terminalreporter.write_line(f"{kind}: {cases} cases")
