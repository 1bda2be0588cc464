"""Tests of banyan.commands.replay."""

from pathlib import Path

import pytest

from banyan.commands import replay
from banyan.config.errors import UserError
from banyan.plan import Step
from banyan.sched.limits import Limits
from banyan.sched.record import Recorder, Setup

SETUP = Setup(
    limits=Limits(num_slots=2, context_length=64, token_budget=16),
    cache="radix",
    num_pages=8,
    page_size=8,
    max_pages_per_slot=8,
)


def record(path: Path, *steps: Step) -> Path:
    with path.open("wb") as file:
        recorder = Recorder(file, SETUP)
        for step in steps:
            recorder.launched(step)
    return path


def test_a_record_that_is_repeated_exactly_is_status_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay.prepare([str(record(tmp_path / "a"))])() == 0
    assert capsys.readouterr().out == "0 steps in 0 turns are as recorded\n"


def test_a_step_that_differs_is_told_with_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay.prepare([str(record(tmp_path / "a", Step(number=1)))])() == 1
    assert "then: 1 steps were recorded, 0 came" in capsys.readouterr().out


@pytest.mark.parametrize("data", [b"", b"some text that is no record", b"\x02\x00\x00\x00hi"])
def test_another_file_is_refused_with_its_name(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(data)
    with pytest.raises(UserError, match="other is not a record"):
        replay.prepare([str(path)])()


def test_a_damaged_record_is_refused_with_its_name(tmp_path: Path) -> None:
    path = record(tmp_path / "torn")
    path.write_bytes(path.read_bytes() + b"\x02\x00\x00\x00hi")
    with pytest.raises(UserError, match="torn is not a record, or is damaged"):
        replay.prepare([str(path)])()


def test_a_missing_file_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*none: No such file"):
        replay.prepare([str(tmp_path / "none")])()


@pytest.mark.parametrize("argv", [[], ["a", "b"], ["--fast", "a"]])
def test_anything_but_one_file_is_refused(argv: list[str]) -> None:
    with pytest.raises(UserError):
        replay.prepare(argv)
