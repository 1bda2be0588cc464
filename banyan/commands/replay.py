"""banyan replay: run a recorded scheduler again and compare each of its steps with the record."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from banyan.config.errors import UserError
from banyan.sched.record import ReplayReport, Setup, read_entries, replay_bytes


def help_text() -> str:
    """Say how `banyan replay` is used."""
    return (
        "usage: banyan replay FILE\n\nFILE is one that --record has written; exit status 1 means that a step differs."
    )


def prepare(argv: Sequence[str]) -> Callable[[], int]:
    """Read the arguments of `banyan replay`."""
    flags = [word for word in argv if word.startswith("-")]
    if flags:
        raise UserError(f"unknown flag {flags[0]}: replay takes a file and nothing else")
    if len(argv) != 1:
        raise UserError(f"replay needs one file, but {len(argv)} were given")
    return functools.partial(_run, Path(argv[0]))


def _run(path: Path) -> int:
    report = _replay(path)
    print(f"{report.steps} steps in {report.turns} turns are as recorded")
    for mismatch in report.mismatches:
        print(f"then: {mismatch}")
    return 1 if report.mismatches else 0


def _replay(path: Path) -> ReplayReport:
    try:
        data = path.read_bytes()
        if isinstance(next(read_entries(data), None), Setup):
            return replay_bytes(data)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise UserError(f"{path} is not a record, or is damaged: {error}") from None
    raise UserError(f"{path} is not a record: it does not begin like one")
