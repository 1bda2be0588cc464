"""Tests of banyan.cli and banyan.__main__."""

import importlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from banyan import cli
from banyan.config.errors import UserError


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "banyan", *argv], capture_output=True, text=True, check=False)


def planted(monkeypatch: pytest.MonkeyPatch, action: Callable[[], int]) -> None:
    """Let every verb do this."""

    class Planted:
        @staticmethod
        def prepare(argv: list[str]) -> Callable[[], int]:
            return action

    monkeypatch.setattr(importlib, "import_module", lambda name: Planted)


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"]])
def test_help_lists_every_verb(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(argv) == 0
    out = capsys.readouterr().out
    for verb in cli.VERBS.values():
        assert verb.usage in out
        assert verb.summary in out


@pytest.mark.parametrize("name", cli.VERBS)
def test_every_verb_has_a_module_that_helps(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: banyan {name}")


def test_help_is_given_wherever_it_is_asked_for_but_not_behind_two_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "show", "--page-size", "8", "-h"]) == 0
    assert "usage:" in capsys.readouterr().out
    assert cli.main(["config", "show", "--", "--help"]) == 2


def test_an_unknown_verb_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["confg"]) == 2
    assert capsys.readouterr().err == "banyan: unknown verb 'confg', see `banyan --help`; did you mean config?\n"


def test_a_mistake_is_one_line_and_status_2() -> None:
    done = run("config", "show", "--pagesize", "8")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "banyan: unknown flag --pagesize; did you mean --page-size?\n"


def test_a_mistake_found_while_running_is_one_line_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise UserError("no")

    planted(monkeypatch, fail)
    assert cli.main(["version"]) == 2


def test_the_status_of_a_verb_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, lambda: 7)
    assert cli.main(["version"]) == 7


def test_an_interrupt_ends_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> int:
        raise KeyboardInterrupt

    planted(monkeypatch, interrupt)
    assert cli.main(["version"]) == 130
    assert capsys.readouterr().err == ""


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise ValueError("a bug")

    planted(monkeypatch, fail)
    with pytest.raises(ValueError, match="a bug"):
        cli.main(["version"])


def test_a_reader_that_goes_away_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "banyan", "config", "table"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_version_is_a_flag_and_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == cli.main(["version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    assert re.fullmatch(r"banyan \d+\.\d+\.\S+", first)


def test_the_installed_command_and_the_module_are_the_same() -> None:
    command = Path(sys.executable).with_name("banyan")
    done = subprocess.run([command, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout == run("--help").stdout == f"{cli.help_text()}\n"


def test_help_is_quick_and_loads_nothing_heavy() -> None:
    script = "import sys, banyan.cli; banyan.cli.main(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {"numpy", "zmq", "tokenizers", "yaml", "torch", "asyncio"}.isdisjoint(done.stdout.splitlines()[-1].split())
    times = []
    for _ in range(5):
        start = time.monotonic()
        run("--help")
        times.append(time.monotonic() - start)
    assert min(times) < 0.2  # the others may have waited for a processor
