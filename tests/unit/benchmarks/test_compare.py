"""Tests of benchmarks.compare."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.compare import compare, failures, main, table
from benchmarks.result import Better, Machine, Result, ResultError, Row, measured, write


def result(rows: Sequence[Row], name: str = "r", cores: int = 2) -> Result:
    return Result(
        name=name,
        commit="c",
        date="2026-01-01",
        host=Machine(cpu="cpu", cores=cores),
        versions={"python": "3.11"},
        rows=tuple(rows),
    )


def one(value: float, better: Better = "lower", workload: str = "w") -> Row:
    return measured(workload, "ms", better, [value])


@pytest.mark.parametrize(
    ("better", "before", "after", "percent", "verdict"),
    [
        ("lower", 10.0, 8.0, -20.0, "better"),
        ("lower", 10.0, 12.0, 20.0, "worse"),
        ("higher", 10.0, 12.0, 20.0, "better"),
        ("higher", 10.0, 8.0, -20.0, "worse"),
        ("lower", 10.0, 10.0, 0.0, "same"),
        ("lower", 0.0, 0.0, 0.0, "same"),
        ("lower", 0.0, 3.0, math.inf, "worse"),
        ("higher", 0.0, 3.0, math.inf, "better"),
        ("higher", -10.0, -5.0, 50.0, "better"),
    ],
)
def test_a_change_is_judged_by_what_is_better(
    better: Better, before: float, after: float, percent: float, verdict: str
) -> None:
    [change] = compare(result([one(before, better)]), result([one(after, better)]))
    assert (change.percent, change.verdict) == (percent, verdict)


def test_rows_of_one_side_only_are_listed() -> None:
    changes = compare(result([one(1, workload="a")]), result([one(2, workload="b")]))
    assert [(c.key[1], c.before, c.after, c.verdict) for c in changes] == [
        ("a", 1.0, None, "missing"),
        ("b", None, 2.0, "new"),
    ]


def test_a_figure_measured_at_zero_is_not_absent() -> None:
    [change] = compare(result([one(0)]), result([]))
    assert change.before == 0.0


def test_only_what_is_worse_by_more_or_missing_fails() -> None:
    before = [one(100, workload="a"), one(100, workload="b"), one(100, workload="c"), one(1, workload="d")]
    after = [one(105, workload="a"), one(111, workload="b"), one(50, workload="c"), one(9, workload="e")]
    failed = failures(compare(result(before), result(after)), 10)
    assert [(change.key[1], change.verdict) for change in failed] == [("b", "worse"), ("d", "missing")]


def test_rows_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(ResultError, match="higher"):
        compare(result([one(1, "lower")]), result([one(1, "higher")]))
    with pytest.raises(ResultError, match="two rows"):
        compare(result([one(1), one(2)]), result([]))


def test_the_table_lines_up() -> None:
    changes = compare(
        result([one(10.5, workload="short"), one(123456, workload="x")]), result([one(21, workload="short")])
    )
    assert table(changes).splitlines() == [
        "model   workload  figure   before  after    change",
        "oracle  short     ms         10.5     21  +100.0 %  worse",
        "oracle  x         ms      123,456      -         -  missing",
    ]


def test_the_command_prints_and_fails_only_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = str(write(result([one(10)], "before"), tmp_path))
    after = str(write(result([one(20)], "after"), tmp_path))
    assert main([before, after]) == 0
    assert main([before, after, "--fail-over", "150"]) == 0
    assert "worse" in capsys.readouterr().out
    assert main([before, after, "--fail-over", "50"]) == 1
    assert "failed: oracle w ms is worse" in capsys.readouterr().err


def test_another_machine_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(write(result([one(1)], name, cores), tmp_path)) for name, cores in (("a", 2), ("b", 16))]
    assert main(paths) == 0
    assert "note: host differ" in capsys.readouterr().out


def test_a_file_that_is_no_result_is_one_line_and_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.json"
    path.write_text("{")
    assert main([str(path), str(path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
