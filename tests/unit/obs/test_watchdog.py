"""Tests of banyan.obs.watchdog."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import pytest

from banyan.obs.watchdog import Progress, Watchdog


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def report(tmp_path: Path) -> Iterator[TextIO]:
    with (tmp_path / "report").open("w+") as file:
        yield file


def dumps(report: TextIO) -> int:
    """Count the reports written so far."""
    report.seek(0)
    return report.read().count("made no progress")


def test_progress_tells_a_stall_once_until_the_next_beat() -> None:
    progress = Progress(10.0)
    told = [
        progress.stalled(now, beats, busy=True)
        for now, beats in [(0, 1), (9, 1), (10, 1), (11, 1), (50, 1), (51, 2), (60, 2), (61, 2), (62, 2)]
    ]
    assert told == [False, False, True, False, False, False, False, True, False]


def test_progress_finds_no_stall_in_idleness() -> None:
    progress = Progress(10.0)
    assert not progress.stalled(0, 1, busy=False)
    assert not progress.stalled(1000, 1, busy=False)
    assert not progress.stalled(1005, 1, busy=True)
    assert progress.stalled(1010, 1, busy=True)


def test_a_stall_is_reported_once_with_all_stacks(report: TextIO) -> None:
    clock = Clock()
    watchdog = Watchdog(10.0, report, clock)
    watchdog.beat()
    for _ in range(8):
        watchdog.check()
        clock.now += 2.5
    assert dumps(report) == 1
    report.seek(0)
    text = report.read()
    assert "no progress for 10.0 s" in text
    assert "test_a_stall_is_reported_once" in text, "the stack shows where it stands"
    watchdog.beat()
    for _ in range(8):
        watchdog.check()
        clock.now += 2.5
    assert dumps(report) == 2


def test_beats_and_idleness_keep_it_quiet(report: TextIO) -> None:
    clock = Clock()
    watchdog = Watchdog(10.0, report, clock)
    for _ in range(20):
        watchdog.beat()
        watchdog.check()
        clock.now += 9.0
    watchdog.idle()
    for _ in range(20):
        watchdog.check()
        clock.now += 9.0
    assert dumps(report) == 0


def test_a_check_that_was_held_up_leaves_the_report_to_the_timer(report: TextIO) -> None:
    clock = Clock()
    watchdog = Watchdog(10.0, report, clock)
    watchdog.beat()
    watchdog.check()
    clock.now += 13.0
    watchdog.check()
    assert dumps(report) == 0


def child(code: str, until: Callable[[bytes], bool], ask: signal.Signals | None = None) -> str:
    """Run code under a real Watchdog; return what it wrote to stderr up to the line that satisfies `until`."""
    prelude = (
        "import ctypes, sys, threading\nfrom banyan.obs.watchdog import Watchdog\n"
        "watchdog = Watchdog(0.4, sys.stderr)\nwatchdog.start()\n"
    )
    command = [sys.executable, "-c", f"{prelude}{code}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"up\n"
        if ask is not None:
            os.kill(process.pid, ask)
        text = b""
        for line in process.stderr:
            text += line
            if until(line):
                break
        process.kill()
    return text.decode()


def test_the_thread_reports_a_real_stall() -> None:
    code = "def stuck():\n  threading.Event().wait()\nwatchdog.beat()\nprint('up', flush=True)\nstuck()"
    text = child(code, lambda line: b"in <module>" in line)
    assert "made no progress for 0.4 s" in text
    assert "in stuck" in text


def test_the_timer_reports_code_that_keeps_the_interpreter_lock() -> None:
    code = "def hog():\n  ctypes.PyDLL(None).usleep(60_000_000)\nwatchdog.beat()\nprint('up', flush=True)\nhog()"
    text = child(code, lambda line: b"in <module>" in line)
    assert "Timeout (" in text
    assert "in hog" in text


def test_a_signal_asks_for_the_stacks() -> None:
    code = "def rest():\n  print('up', flush=True)\n  threading.Event().wait()\nrest()"
    text = child(code, lambda line: b"in <module>" in line, ask=signal.SIGUSR2)
    assert "in rest" in text
    assert "made no progress" not in text


def test_stop_ends_thread_timer_and_handler() -> None:
    code = (
        "import signal, sys, threading\nfrom banyan.obs.watchdog import Watchdog\n"
        "watchdog = Watchdog(0.05, sys.stderr)\nwatchdog.start()\nwatchdog.stop()\n"
        "assert threading.active_count() == 1\n"
        "threading.Event().wait(0.2)\n"  # longer than the timer
        "signal.raise_signal(signal.SIGUSR2)\n"  # its default is to end the process
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == -signal.SIGUSR2
    assert result.stderr == ""
