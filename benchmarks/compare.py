"""Compare two result files: python -m benchmarks.compare a.json b.json [--fail-over PERCENT]."""

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from benchmarks.result import Result, ResultError, Row, read

Verdict = Literal["better", "worse", "same", "missing", "new"]


class Change(NamedTuple):
    """How one figure moved."""

    key: tuple[str, str, str]
    before: float | None
    after: float | None
    percent: float  # of the value before; infinite from zero, not a number where a side is absent
    verdict: Verdict


def compare(before: Result, after: Result) -> list[Change]:
    """List every figure of both results, in the order of the first and then of the second."""
    old, new = _by_key(before), _by_key(after)
    return [_change(key, old.get(key), new.get(key)) for key in [*old, *(key for key in new if key not in old)]]


def failures(changes: Sequence[Change], percent: float) -> list[Change]:
    """List what got worse by more than so many percent, or is no longer measured."""
    return [
        change
        for change in changes
        if change.verdict == "missing" or (change.verdict == "worse" and abs(change.percent) > percent)
    ]


def table(changes: Sequence[Change]) -> str:
    """Lay the changes out in columns."""
    head = ("model", "workload", "figure", "before", "after", "change", "")
    lines = [head, *((*c.key, _number(c.before), _number(c.after), _percent(c.percent), c.verdict) for c in changes)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    # names to the left, numbers to the right
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < 3 or column == 6 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print the comparison; exit status 1 when --fail-over is given and something is worse by more than that."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=compare.__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--fail-over", type=float, metavar="PERCENT", help="fail when a figure is worse by more")
    arguments = parser.parse_args(argv)
    try:
        before, after = read(arguments.before), read(arguments.after)
        changes = compare(before, after)
    except ResultError as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2
    for name, one, two in (("host", before.host, after.host), ("versions", before.versions, after.versions)):
        if one != two:
            print(f"note: {name} differ: {one} and {two}")
    print(table(changes))
    failed = [] if arguments.fail_over is None else failures(changes, arguments.fail_over)
    for change in failed:
        print(f"failed: {' '.join(change.key)} is {change.verdict}", file=sys.stderr)
    return 1 if failed else 0


def _by_key(result: Result) -> dict[tuple[str, str, str], Row]:
    rows = {row.key: row for row in result.rows}
    if len(rows) < len(result.rows):
        raise ResultError(f"{result.name} has two rows for one figure")
    return rows


def _change(key: tuple[str, str, str], before: Row | None, after: Row | None) -> Change:
    if before is None or after is None:
        values = [row.value if row else None for row in (before, after)]
        return Change(key, values[0], values[1], math.nan, "missing" if after is None else "new")
    if before.better != after.better:
        raise ResultError(f"{' '.join(key)}: {before.better} is better in one file, {after.better} in the other")
    difference = after.value - before.value
    percent = 100 * difference / abs(before.value) if before.value else math.copysign(math.inf, difference)
    if difference == 0:
        return Change(key, before.value, after.value, 0.0, "same")
    improved = (difference > 0) == (before.better == "higher")
    return Change(key, before.value, after.value, percent, "better" if improved else "worse")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _percent(percent: float) -> str:
    return "-" if math.isnan(percent) else f"{percent:+.1f} %"


if __name__ == "__main__":
    sys.exit(main())
