"""Tests of banyan.commands.doctor."""

from pathlib import Path

import msgspec
import pytest

from banyan.commands import doctor
from banyan.commands.checks import Finding


def test_this_machine_is_fit(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.prepare([])() == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    names = {line[1] for line in lines}
    assert names >= {"banyan", "python", "platform", "cpu", "memory", "torch", "temp", "cache", "models", "settings"}
    assert {line[0] for line in lines} <= {"ok", "warn"}


def test_a_bad_setting_is_status_1_in_both_forms(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BANYAN_MEMORY_PAGE_SIZE", "x")
    assert doctor.prepare([])() == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("stop  settings")
    assert doctor.prepare(["--json"])() == 1
    said = msgspec.json.decode(capsys.readouterr().out)
    assert said["ok"] is False
    assert said["findings"][-1]["state"] == "stop"


def test_a_warning_is_no_failure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "examine", lambda: [Finding("memory", "warn", "little", "end other programs")])
    assert doctor.prepare([])() == 0
    assert capsys.readouterr().out == "warn  memory  little; end other programs\n"
