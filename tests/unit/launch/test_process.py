"""ChildProcess: what a parent learns of a child."""

import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from banyan.launch.process import ChildProcess, explain, was_deliberate
from banyan.wire.control import Failed, FromChild, Ready

STUB = "tests.unit.launch.stub"


@pytest.fixture(autouse=True)
def stub_is_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))


class Kept:
    """A child and what it wrote."""

    def __init__(self, words: str) -> None:
        self.relayed = bytearray()
        self.process = ChildProcess(STUB, words.encode(), self.relayed.extend)

    def hear(self) -> FromChild:
        while True:
            select.select([self.process.ready_fd], [], [], 10)
            said = self.process.hear()
            if said is not None:
                return said

    def end(self) -> int:
        select.select([self.process.pidfd], [], [], 10)
        self.process.drain()
        assert self.process.returncode is not None
        return self.process.returncode


@pytest.fixture
def children() -> Iterator[list[Kept]]:
    kept: list[Kept] = []
    yield kept
    for child in kept:
        child.process.close()


def test_a_child_says_that_it_is_ready(children: list[Kept]) -> None:
    child = Kept("ready:abc sleep")
    children.append(child)
    assert child.hear() == Ready(schema="abc", pid=child.process.pid)
    assert child.process.returncode is None


@pytest.mark.parametrize(("words", "reason"), [("fail:no_memory", "no memory"), ("garbage", "cannot be read")])
def test_a_child_says_why_it_cannot_start(children: list[Kept], words: str, reason: str) -> None:
    child = Kept(words)
    children.append(child)
    said = child.hear()
    assert isinstance(said, Failed)
    assert reason in said.reason


def test_the_end_of_a_child_is_seen_and_its_last_line_is_kept(children: list[Kept]) -> None:
    child = Kept("log:one log:two_words exit:3")
    children.append(child)
    assert child.end() == 3
    assert child.process.last_line() == "two words"
    assert bytes(child.relayed) == b"one\ntwo words\n"


def test_a_signal_that_killed_a_child_is_named(children: list[Kept]) -> None:
    child = Kept("kill:11")
    children.append(child)
    assert explain(child.end(), "") == "was killed by signal 11 (Segmentation fault)"


def test_closing_kills_and_leaves_no_descriptor() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    child = Kept("ready:x sleep")
    child.hear()
    pid = child.process.pid
    child.process.close()
    child.process.signal(signal.SIGTERM)  # too late, and no error
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_an_exit_status_comes_with_the_last_line() -> None:
    assert explain(1, "ValueError: no") == "ended with status 1; its last line was: ValueError: no"
    assert explain(0, "") == "ended with status 0"


@pytest.mark.parametrize(("returncode", "expected"), [(-9, True), (-15, True), (-11, False), (-6, False), (1, False)])
def test_only_a_kill_from_outside_is_deliberate(returncode: int, expected: bool) -> None:
    assert was_deliberate(returncode) is expected
