"""Budgets that only shrink: sizes, counts, and rules that hold for every file."""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from banyan.config.env import OWN_VARIABLES
from banyan.config.fields import all_leaves
from banyan.config.spec import EngineConfig
from tests.budget import detect
from tests.budget.detect import Source, module_names, sources, without_mirror

ROOT = Path(__file__).parents[2]
PACKAGE = sources(ROOT, "banyan")
ALL = [*PACKAGE, *sources(ROOT, "benchmarks", "tests")]

MAX_LEAVES = 100
MAX_REQ_ATTRIBUTES = 20
MAX_VARIABLES = 12

# Modules and folders (they end in a slash) whose tests are elsewhere, with the place. Keep it short: what is hard to
# test in its own place is too large.
MIRRORED_ELSEWHERE = {
    "banyan/memory/ledger/errors.py": "tests/unit/memory/ledger",  # one exception, raised and caught all over there
}


def findings(detector: Callable[[Source], Iterator[str]], files: list[Source]) -> list[str]:
    return [finding for source in files for finding in detector(source)]


@pytest.mark.parametrize(
    "detector",
    [
        detect.long_file,
        detect.long_functions,
        detect.type_ignores,
        detect.global_statements,
    ],
    ids=lambda detector: str(detector.__name__),
)
def test_no_file_has(detector: Callable[[Source], Iterator[str]]) -> None:
    assert findings(detector, ALL) == []


def test_every_module_says_what_it_is_for() -> None:
    assert findings(detect.missing_docstring, [*PACKAGE, *sources(ROOT, "benchmarks")]) == []


def test_only_commands_and_benchmarks_print() -> None:
    silent = [s for s in PACKAGE if s.path != Path("banyan/cli.py") and "commands" not in s.path.parts]
    assert findings(detect.prints, silent) == []


def test_only_one_file_reads_the_environment() -> None:
    others = [source for source in PACKAGE if source.path != Path("banyan/config/env.py")]
    assert findings(detect.environment_reads, others) == []


def test_packages_hold_only_a_docstring() -> None:
    files = [source for source in ALL if source.path != Path("banyan/__init__.py")]
    assert findings(detect.code_in_init, files) == []


def test_settings_and_variables_are_few() -> None:
    assert len(all_leaves(EngineConfig)) <= MAX_LEAVES
    assert len(OWN_VARIABLES) <= MAX_VARIABLES


def test_a_request_stays_small() -> None:
    [source] = [source for source in PACKAGE if source.path == Path("banyan/sched/req.py")]
    found = detect.attributes(source, "Req")
    assert 0 < len(found) <= MAX_REQ_ATTRIBUTES, sorted(found)


def covers(entry: str, module: str) -> bool:
    return module == entry or (entry.endswith("/") and module.startswith(entry))


def test_every_module_has_its_test_file() -> None:
    missing = without_mirror(ROOT, "banyan", "tests/unit")
    assert [module for module in missing if not any(covers(entry, module) for entry in MIRRORED_ELSEWHERE)] == []


def test_no_exception_from_the_mirror_is_stale() -> None:
    missing = without_mirror(ROOT, "banyan", "tests/unit")
    assert [entry for entry in MIRRORED_ELSEWHERE if not any(covers(entry, module) for module in missing)] == []
    assert [place for place in MIRRORED_ELSEWHERE.values() if not (ROOT / place).exists()] == []


@pytest.mark.parametrize("name", module_names(ROOT, "banyan"))
def test_every_module_imports(name: str) -> None:
    assert importlib.import_module(name).__doc__
