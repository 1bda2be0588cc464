"""The tree itself: what runs, what it says when ready, what it loads, what it leaves, how it fails to start."""

import os
import select
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from banyan.config.load import from_options
from banyan.engine import Engine
from banyan.launch.ports import sweep
from banyan.launch.supervisor import LaunchError
from banyan.sched.record import replay
from benchmarks.streams import mixed_asks
from tests.process.harness import engine, findings, greedy, leftovers, serve

pytestmark = [pytest.mark.slow, pytest.mark.timeout(90)]

ROOT = Path(__file__).parents[2]


def title(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline()).strip()
    except psutil.NoSuchProcess:
        return ""


def test_ps_shows_the_tree_of_two_replicas() -> None:
    with engine(dp_size=2) as running:
        children = psutil.Process().children(recursive=True)
        assert sorted(title(child.pid) for child in children) == [
            "banyan: controller 0",
            "banyan: detokenizer 0",
            "banyan: scheduler 0",
            "banyan: scheduler 1",
        ]
        assert {child.pid for child in children} == set(running.pids.values())
        assert all(child.ppid() == os.getpid() for child in children)


def test_the_ready_handshake_brings_the_limits_to_the_front() -> None:
    with engine(context_length=500, max_total_tokens=640, page_size=16, max_running_requests=8) as running:
        info = running.get_server_info()
        assert (info["max_total_num_tokens"], info["max_req_input_len"]) == (640, 499)
        limits = running.tokenizer_manager.limits
        assert (limits.context_length, limits.max_req_input_len) == (500, 499)
        assert info["replicas"][0].total_pages == 40


def test_sockets_are_in_a_private_directory_and_nothing_listens_elsewhere() -> None:
    with engine(dp_size=2) as running:
        directory = Path(running.attachment.ports.directory)
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        sockets = {path.name for path in directory.iterdir() if path.is_socket()}
        assert sockets == {"controller", "replica0", "replica1", "tokens", "front0"}
        for pid in running.pids.values():
            assert psutil.Process(pid).net_connections("inet") == []
    assert not directory.exists()


def test_two_servers_on_one_host_do_not_meet() -> None:
    with engine() as first, engine() as second:
        assert first.attachment.ports.directory != second.attachment.ports.directory
        assert findings(serve(first, mixed_asks(10, 50, seed=1))) == []
        assert findings(serve(second, mixed_asks(10, 50, seed=2))) == []
        first.shutdown()
        assert findings(serve(second, mixed_asks(10, 50, seed=3))) == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"tokenizer_path": "/nowhere/tokenizer.json"}, "detokenizer 0 could not start: there is no tokenizer at"),
        ({"recovery.start_timeout_s": 0.01}, r"was not ready after 0\.01 s"),
    ],
)
def test_a_child_that_cannot_start_fails_the_launch_with_its_reason(options: dict[str, object], reason: str) -> None:
    before, began = leftovers(), time.monotonic()
    with pytest.raises(LaunchError, match=reason):
        Engine(config=from_options(options))
    assert time.monotonic() - began < 10
    assert leftovers() == before


def test_a_child_that_is_killed_while_starting_fails_the_launch() -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", "from banyan import Engine; Engine()"], stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    children: list[psutil.Process] = []
    while not children:
        children = [child for child in psutil.Process(owner.pid).children() if "banyan.launch" in title(child.pid)]
    children[0].send_signal(signal.SIGKILL)
    _, errors = owner.communicate(timeout=20)
    assert owner.returncode == 1
    assert "LaunchError: " in errors
    assert "could not start: it was killed by signal 9 (Killed)" in errors


OWNER = """
import signal, sys
from banyan import Engine
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background begin with SIGINT ignored
engine = Engine(log_level="warning")
engine.generate("hello", {"max_new_tokens": 5})
print(*engine.pids.values(), engine.attachment.ports.directory, flush=True)
if sys.argv[1] != "exit":
    for chunk in engine.generate("endless", {"max_new_tokens": 30000, "ignore_eos": True}, stream=True):
        pass
"""


@pytest.mark.parametrize("how", ["exit", "SIGTERM", "SIGINT", "SIGKILL"])
def test_however_the_owner_ends_its_children_do_too(how: str) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, how], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
    )
    assert owner.stdout is not None
    *pids, directory = owner.stdout.readline().split()
    ends = [os.pidfd_open(int(pid)) for pid in pids]
    if how != "exit":
        owner.send_signal(signal.Signals[how])
    owner.communicate(timeout=20)
    for end in ends:
        assert select.select([end], [], [], 1.0)[0] == [end]  # dead within a second
        os.close(end)
    if how == "SIGKILL":
        assert Path(directory) in sweep(Path(directory).parent)  # as the next server does when it starts
    assert not Path(directory).exists()


TORCH = """
import os
from pathlib import Path
with Path(__file__).with_name("loaded").open("a") as file:
    file.write(f"{os.getpid()}\\n")
"""


def test_no_process_loads_torch_for_the_oracle_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text(TORCH)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    script = (
        "import sys; from banyan import Engine\n"
        "with Engine(dp_size=2, log_level='warning') as engine:\n"
        "    engine.generate('hello', {'max_new_tokens': 5})\n"
        "    engine.encode('hello')\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30, cwd=ROOT)
    assert not (tmp_path / "loaded").exists()
    subprocess.run([sys.executable, "-c", "import torch"], check=True, timeout=30, cwd=ROOT)
    assert (tmp_path / "loaded").exists()  # the trap works


def test_a_recording_of_a_real_scheduler_replays_to_the_same_steps(tmp_path: Path) -> None:
    with engine(record=str(tmp_path), **{"debug.retract_every": 20}) as running:
        assert findings(serve(running, mixed_asks(20, 60, seed=9))) == []
    (path,) = tmp_path.iterdir()
    report = replay(path)
    assert report.mismatches == ()
    assert report.steps > 50


def test_an_idle_tree_costs_next_to_nothing() -> None:
    with engine() as running:
        serve(running, [greedy("warm", 5)])
        processes = [psutil.Process(pid) for pid in (os.getpid(), *running.pids.values())]
        before = sum(sum(process.cpu_times()[:2]) for process in processes)
        time.sleep(2.0)  # what is measured
        used = sum(sum(process.cpu_times()[:2]) for process in processes) - before
        assert used < 0.2  # of two seconds, for three processes
