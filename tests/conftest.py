"""Settings of all tests, and the counting of random cases: a test that runs many says how many, the summary adds up."""

from collections import Counter
from typing import Protocol

import pytest
from hypothesis import HealthCheck, settings

from tests.fakes.count import Count

# How fast inputs are made says nothing about the code, and depends on what else the machine does.
settings.register_profile("banyan", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("banyan")

_CASES = pytest.StashKey[Counter[str]]()


class _Node(Protocol):
    """A test process of pytest-xdist, as its parent sees it."""

    config: pytest.Config
    workeroutput: dict[str, dict[str, int]]


def pytest_configure(config: pytest.Config) -> None:
    """Start to count."""
    config.stash[_CASES] = Counter()


@pytest.fixture
def count(request: pytest.FixtureRequest) -> Count:
    """Give a test the way to say what it ran."""

    def add(kind: str, cases: int) -> None:
        request.config.stash[_CASES][kind] += cases

    return add


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the counts of a test process to its parent."""
    output: dict[str, dict[str, int]] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        cases: Counter[str] = session.config.stash[_CASES]
        output["cases"] = dict(cases)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: _Node) -> None:
    """Take the counts of a test process. One that crashed has none."""
    node.config.stash[_CASES].update(getattr(node, "workeroutput", {}).get("cases", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was run."""
    for kind, cases in sorted(config.stash[_CASES].items()):
        terminalreporter.write_line(f"{kind}: {cases} cases")
