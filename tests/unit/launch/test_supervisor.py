"""Supervisor on stub children: start, death, restart, budget, hang, end."""

import os
import queue
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from banyan.launch.ports import Kind
from banyan.launch.supervisor import ChildPlan, LaunchError, Pulse, Rules, Supervisor
from banyan.wire.control import PeerLost, PeerRestarted

STUB = "tests.unit.launch.stub"
WAIT_S = 10.0

pytestmark = pytest.mark.timeout(30)


@pytest.fixture(autouse=True)
def stub_is_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))


class Ears:
    """Hears what the supervisor tells, and makes up flight records."""

    def __init__(self) -> None:
        self.told: queue.Queue[tuple[float, PeerRestarted | PeerLost]] = queue.Queue()
        self.downs: queue.Queue[tuple[float, PeerLost]] = queue.Queue()
        self.text = bytearray()
        self.pulses: dict[tuple[Kind, int], Pulse] = {}

    def pulse(self, kind: Kind, index: int) -> Pulse | None:
        return self.pulses.get((kind, index))

    def tell(self, news: PeerRestarted | PeerLost) -> None:
        self.told.put((time.monotonic(), news))

    def down(self, news: PeerLost) -> None:
        self.downs.put((time.monotonic(), news))

    def relay(self, text: bytes) -> None:
        self.text.extend(text)

    def hear(self) -> PeerRestarted | PeerLost:
        return self.told.get(timeout=WAIT_S)[1]


def rules(
    *,
    restart: bool = True,
    budget: int = 2,
    window_s: float = 600.0,
    start_timeout_s: float = 10.0,
    watchdog_timeout_s: float = 10.0,
) -> Rules:
    return Rules(restart, budget, window_s, start_timeout_s, watchdog_timeout_s, schema="v1")


def plan(words: str | Callable[[int], str], kind: Kind = "scheduler", index: int = 0) -> ChildPlan:
    def config(incarnation: int) -> bytes:
        return (words if isinstance(words, str) else words(incarnation)).encode()

    return ChildPlan(kind, index, STUB, config)


Make = Callable[..., Supervisor]


@pytest.fixture
def ears() -> Ears:
    return Ears()


@pytest.fixture
def make(ears: Ears) -> Iterator[Make]:
    made: list[Supervisor] = []

    def build(*plans: ChildPlan, rule: Rules | None = None) -> Supervisor:
        made.append(Supervisor(plans, rule or rules(), ears))
        return made[-1]

    yield build
    for supervisor in made:
        supervisor.stop()


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_all_children_are_ready_and_all_end(make: Make, ears: Ears) -> None:
    supervisor = make(plan("log:hello ready:v1 sleep"), plan("ready:v1 sleep", "detokenizer"))
    ready = supervisor.start()
    pids = supervisor.pids
    assert {name: said.pid for name, said in ready.items()} == pids
    assert list(pids) == ["scheduler 0", "detokenizer 0"]
    supervisor.stop()
    supervisor.stop()
    assert all(gone(pid) for pid in pids.values())
    assert supervisor.pids == {}
    assert bytes(ears.text) == b"hello\n"
    assert ears.told.empty()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("fail:no_such_model exit:1", "scheduler 0 could not start: no such model"),
        ("log:ImportError:_x exit:1", "it ended with status 1; its last line was: ImportError: x"),
        ("kill:9", "it was killed by signal 9 (Killed)"),
        ("ready:v2 sleep", "another version of the protocol"),
    ],
)
def test_a_child_that_cannot_start_fails_the_launch_at_once(make: Make, words: str, reason: str) -> None:
    sibling = plan("sleep", "detokenizer")
    supervisor = make(sibling, plan(words))
    began = time.monotonic()
    with pytest.raises(LaunchError) as caught:
        supervisor.start()
    assert reason in str(caught.value)
    assert time.monotonic() - began < WAIT_S / 2
    assert supervisor.pids == {}


def test_a_child_that_is_never_ready_is_given_up(make: Make) -> None:
    supervisor = make(plan("log:loading sleep"), rule=rules(start_timeout_s=0.4))
    with pytest.raises(LaunchError, match=r"was not ready after 0\.4 s .*its last line was: loading"):
        supervisor.start()


def test_a_dead_child_is_replaced_alone_and_announced_when_its_successor_is_ready(make: Make, ears: Ears) -> None:
    supervisor = make(plan("ready:v1 sleep"), plan("ready:v1 sleep", "detokenizer"))
    supervisor.start()
    before = supervisor.pids
    ears.pulses["scheduler", 0] = Pulse(busy=True, silent_s=0.0, suspects=b"s", newcomers=b"n")
    killed = time.monotonic()
    os.kill(before["scheduler 0"], signal.SIGKILL)
    seen, down = ears.downs.get(timeout=WAIT_S)
    assert seen - killed < 0.1
    assert (down.kind, down.index) == ("scheduler", 0)
    assert ears.hear() == PeerRestarted(
        kind="scheduler",
        index=0,
        incarnation=1,
        cause="was killed by signal 9 (Killed)",
        deliberate=True,
        suspects=b"s",
        newcomers=b"n",
    )
    after = supervisor.pids
    assert after["scheduler 0"] != before["scheduler 0"]
    assert after["detokenizer 0"] == before["detokenizer 0"]
    assert supervisor.restarts == {"scheduler 0": 1, "detokenizer 0": 0}


def test_a_crash_is_not_deliberate(make: Make, ears: Ears) -> None:
    supervisor = make(plan(lambda incarnation: "ready:v1 sleep" if incarnation else "ready:v1 kill:11"))
    supervisor.start()
    news = ears.hear()
    assert isinstance(news, PeerRestarted)
    assert not news.deliberate
    assert "Segmentation fault" in news.cause


def test_a_spent_budget_is_said_with_the_cause(make: Make, ears: Ears) -> None:
    supervisor = make(plan("ready:v1 log:boom exit:7"), rule=rules(budget=2))
    supervisor.start()
    news = [ears.hear(), ears.hear(), ears.hear()]
    assert [type(one) for one in news] == [PeerRestarted, PeerRestarted, PeerLost]
    assert "status 7; its last line was: boom; it was restarted 2 times" in news[-1].cause
    assert supervisor.pids == {}
    assert supervisor.restarts == {"scheduler 0": 2}


def test_old_restarts_do_not_count(make: Make, ears: Ears) -> None:
    make(plan("ready:v1 exit:1"), rule=rules(budget=1, window_s=1e-6)).start()
    assert [type(ears.hear()) for _ in range(4)] == [PeerRestarted] * 4


def test_a_successor_that_dies_while_starting_spends_the_budget_and_keeps_the_first_suspects(
    make: Make, ears: Ears
) -> None:
    scripts = ["ready:v1 kill:11", "exit:1", "ready:v1 sleep"]
    ears.pulses["scheduler", 0] = Pulse(busy=True, silent_s=0.0, suspects=b"first")
    supervisor = make(plan(lambda incarnation: scripts[incarnation]))
    supervisor.start()
    news = ears.hear()
    assert isinstance(news, PeerRestarted)
    assert news.suspects == b"first"
    assert "Segmentation fault" in news.cause
    assert supervisor.restarts == {"scheduler 0": 2}
    assert [name for name, _ in supervisor.deaths] == ["scheduler 0", "scheduler 0"]
    assert ["Segmentation fault" in cause for _, cause in supervisor.deaths] == [True, False]


def test_without_recovery_a_death_is_final(make: Make, ears: Ears) -> None:
    supervisor = make(plan("ready:v1 sleep"), rule=rules(restart=False))
    os.kill(supervisor.start()["scheduler 0"].pid, signal.SIGKILL)
    assert ears.hear() == PeerLost(kind="scheduler", index=0, cause="was killed by signal 9 (Killed)")
    assert supervisor.restarts == {"scheduler 0": 0}


def test_a_hung_child_shows_its_stacks_and_is_replaced(make: Make, ears: Ears) -> None:
    supervisor = make(plan("ready:v1 sleep"), rule=rules(watchdog_timeout_s=5.0))
    pid = supervisor.start()["scheduler 0"].pid
    ears.pulses["scheduler", 0] = Pulse(busy=True, silent_s=5.1, suspects=b"s")
    ears.downs.get(timeout=WAIT_S)
    ears.pulses.clear()
    news = ears.hear()
    assert isinstance(news, PeerRestarted)
    assert news.cause == "made no progress for 5.1 s"
    assert not news.deliberate
    assert gone(pid)
    assert b"stacks" in bytes(ears.text)


def test_silence_without_work_is_no_hang(make: Make, ears: Ears) -> None:
    supervisor = make(plan("ready:v1 sleep"), rule=rules(watchdog_timeout_s=1.0))
    pid = supervisor.start()["scheduler 0"].pid
    ears.pulses["scheduler", 0] = Pulse(busy=False, silent_s=100.0)
    with pytest.raises(queue.Empty):
        ears.downs.get(timeout=0.5)
    assert not gone(pid)


def test_a_child_that_ignores_the_request_to_end_is_killed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("banyan.launch.supervisor.GRACE_S", 0.2)
    supervisor = make(plan("deaf ready:v1 sleep"))
    pid = supervisor.start()["scheduler 0"].pid
    supervisor.stop()
    assert gone(pid)


def test_no_descriptor_is_left(make: Make, ears: Ears) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    supervisor = make(plan(lambda incarnation: "ready:v1 sleep" if incarnation else "ready:v1 exit:1"))
    supervisor.start()
    ears.hear()
    supervisor.stop()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
