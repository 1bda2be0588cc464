"""launch_engine on children that do nothing: what starts, what is handed over, what is left."""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from banyan.config.resolve import Settled
from banyan.launch.ports import PortArgs, sweep
from banyan.launch.supervisor import LaunchError
from banyan.launch.tree import MODULES, Tree, launch_engine, make_rules, plan_children, read_attachment
from tests.unit.launch.settle import settle as settle_options

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.timeout(30)


def settle(dp_size: int = 1, served_name: str = "x") -> Settled:
    return settle_options(
        served_model_name=served_name,
        dp_size=dp_size,
        tokenizer_worker_num=2,
        recovery="stop",
        **{"recovery.budget": 3, "recovery.window_s": 7.0},
    )


@pytest.fixture(autouse=True)
def idle_children(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for kind in MODULES:
        monkeypatch.setitem(MODULES, kind, "tests.unit.launch.life")


@pytest.fixture
def launch() -> Iterator[Callable[[Settled], Tree]]:
    trees: list[Tree] = []

    def start(settled: Settled) -> Tree:
        trees.append(launch_engine(settled))
        return trees[-1]

    yield start
    for tree in trees:
        tree.shutdown()


def test_the_tree_of_one_replica_has_no_controller() -> None:
    ports = PortArgs(directory="/run/x", dp_size=1, num_fronts=1)
    assert [plan.name for plan in plan_children(settle(), ports)] == ["scheduler 0", "detokenizer 0"]


def test_the_tree_of_several_replicas_has_one() -> None:
    ports = PortArgs(directory="/run/x", dp_size=2, num_fronts=1)
    names = [plan.name for plan in plan_children(settle(2), ports)]
    assert names == ["scheduler 0", "scheduler 1", "detokenizer 0", "controller 0"]


def test_rules_come_from_the_config() -> None:
    rules = make_rules(settle())
    assert (rules.restart, rules.budget, rules.window_s) == (False, 3, 7.0)
    assert len(rules.schema) == 64


def test_limits_are_those_of_the_smallest_replica_and_can_be_read_by_another_front(
    launch: Callable[[Settled], Tree], capfd: pytest.CaptureFixture[str]
) -> None:
    tree = launch(settle(2))
    attachment = tree.attachment
    assert (attachment.max_total_num_tokens, attachment.max_req_input_len) == (100, 50)
    assert read_attachment(Path(attachment.ports.directory)) == attachment
    assert attachment.ports.num_fronts == 2
    tree.shutdown()
    assert "scheduler 1 incarnation 0" in capfd.readouterr().err


def test_children_have_names_and_their_own_process_group(launch: Callable[[Settled], Tree]) -> None:
    pids = launch(settle()).supervisor.pids
    titles = {name: " ".join(psutil.Process(pid).cmdline()).strip() for name, pid in pids.items()}
    assert titles == {"scheduler 0": "banyan: scheduler 0", "detokenizer 0": "banyan: detokenizer 0"}
    assert all(os.getpgid(pid) == pid for pid in pids.values())


def test_shutdown_leaves_nothing_and_may_be_repeated(launch: Callable[[Settled], Tree], tmp_path: Path) -> None:
    tree = launch(settle())
    pids = tree.supervisor.pids
    (directory,) = tmp_path.glob("banyan-*")
    tree.shutdown()
    tree.shutdown()
    assert not directory.exists()
    assert not any(psutil.pid_exists(pid) for pid in pids.values())


def test_a_failed_launch_names_the_cause_and_leaves_nothing(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(LaunchError, match="detokenizer 0 could not start: there is no such tokenizer"):
        launch_engine(settle(served_name="broken"))
    assert time.monotonic() - began < 10
    assert list(tmp_path.glob("banyan-*")) == []
    assert psutil.Process().children() == []


def test_children_survive_the_thread_that_launched_them(launch: Callable[[Settled], Tree]) -> None:
    trees: list[Tree] = []
    thread = threading.Thread(target=lambda: trees.append(launch(settle())))
    thread.start()
    thread.join()
    pids = trees[0].supervisor.pids
    assert len(pids) == 2
    # The kernel signals children of a thread that ends; give it the time to be wrong.
    assert psutil.wait_procs([psutil.Process(pid) for pid in pids.values()], timeout=0.3)[0] == []


OWNER = """
import sys, time, signal
from tests.unit.launch.test_tree import settle
from banyan.launch import tree
for kind in tree.MODULES:
    tree.MODULES[kind] = "tests.unit.launch.life"
running = tree.launch_engine(settle())
print(*running.supervisor.pids.values(), running.attachment.ports.directory, flush=True)
if sys.argv[1] == "wait":
    time.sleep(60)
"""


def owner(what: str) -> tuple["subprocess.Popen[str]", list[int], Path]:
    process = subprocess.Popen([sys.executable, "-c", OWNER, what], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    *pids, directory = process.stdout.readline().split()
    process.stdout.close()
    return process, [int(pid) for pid in pids], Path(directory)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["exit", "SIGTERM"])
def test_the_end_of_the_owner_leaves_nothing(how: str) -> None:
    process, pids, directory = owner("wait" if how == "SIGTERM" else "exit")
    if how == "SIGTERM":
        process.send_signal(signal.SIGTERM)
    assert process.wait(10) == (143 if how == "SIGTERM" else 0)
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert not directory.exists()


@pytest.mark.slow
def test_children_of_a_killed_owner_are_gone_within_a_second() -> None:
    process, pids, directory = owner("wait")
    ends = [os.pidfd_open(pid) for pid in pids]  # readable once dead, whether or not somebody reaps
    process.kill()
    process.wait(10)
    for end in ends:
        assert select.select([end], [], [], 1.0)[0] == [end]
        os.close(end)
    assert sweep(directory.parent) == [directory]  # nobody was left to remove it; the next launch does
