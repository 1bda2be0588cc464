"""run_child: how a child begins, what it refuses, and how it ends."""

import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from banyan.launch.child import ChildArgs
from banyan.launch.ports import PortArgs
from banyan.launch.process import ChildProcess
from banyan.wire.codec import schema_hash
from banyan.wire.control import Failed, FromChild, Ready
from tests.unit.launch.settle import settle

pytestmark = pytest.mark.timeout(30)


class Kept:
    """A child that behaves by name, and what it wrote."""

    def __init__(self, name: str, parent_pid: int) -> None:
        self.text = bytearray()
        args = ChildArgs(
            kind="scheduler",
            index=3,
            incarnation=2,
            parent_pid=parent_pid,
            settled=settle(served_model_name=name),
            ports=PortArgs(directory="/run/x", dp_size=1, num_fronts=1),
        )
        self.process = ChildProcess("tests.unit.launch.life", msgspec.json.encode(args), self.text.extend)

    def hear(self) -> FromChild | None:
        while select.select([self.process.ready_fd], [], [], 10)[0]:
            said = self.process.hear()
            if said is not None or self.process.returncode is not None:
                return said
        return None

    def end(self) -> int | None:
        select.select([self.process.pidfd], [], [], 10)
        self.process.drain()
        return self.process.returncode


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Kept]]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    kept: list[Kept] = []
    yield kept
    for child in kept:
        child.process.close()


def start(children: list[Kept], name: str, parent_pid: int = 0) -> Kept:
    children.append(Kept(name, parent_pid or os.getpid()))
    return children[-1]


def test_a_child_is_ready_with_its_limits_and_ends_in_order_when_asked(children: list[Kept]) -> None:
    child = start(children, "x")
    pid = child.process.pid
    assert child.hear() == Ready(schema=schema_hash(), pid=pid, max_total_num_tokens=103, max_req_input_len=53)
    child.process.signal(signal.SIGTERM)
    assert child.end() == -signal.SIGTERM
    assert bytes(child.text).decode().splitlines() == ["scheduler 3 incarnation 2", "closed its files"]


def test_a_child_shows_its_stacks_on_demand_and_goes_on(children: list[Kept]) -> None:
    child = start(children, "x")
    child.hear()
    child.process.signal(signal.SIGUSR2)
    while b"main" not in child.text:
        assert select.select([child.process.stderr_fd], [], [], 10)[0]
        child.process.drain()
    assert child.process.returncode is None


def test_an_error_before_it_is_ready_is_reported(children: list[Kept]) -> None:
    child = start(children, "pickle")
    said = child.hear()
    assert isinstance(said, Failed)
    assert "unpickling of banyan.launch.child.Life refused" in said.reason
    assert child.end() == 1


def test_an_error_while_serving_ends_the_process_with_a_traceback(children: list[Kept]) -> None:
    child = start(children, "crash")
    assert isinstance(child.hear(), Ready)
    assert child.end() == 1
    assert child.process.last_line() == "RuntimeError: it was too much"


def test_a_child_whose_parent_is_another_ends_at_once(children: list[Kept]) -> None:
    child = start(children, "x", parent_pid=1)
    assert child.end() == 1
    assert child.hear() is None
