"""What tests on real processes share: an engine that is watched for what it leaves behind, and waiting with a limit."""

import asyncio
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from banyan.config.load import from_options
from banyan.engine import Engine
from banyan.wire.request import SamplingParams
from benchmarks.streams import Ask, Ledger, make_ask, run_streams

WAIT_S = 20.0


@contextmanager
def engine(**options: object) -> Iterator[Engine]:
    """Run an engine on the oracle model. It does not recover unless told to, and it must leave nothing behind."""
    settings: dict[str, object] = {"recovery": "stop", "log_level": "warning", "max_running_requests": 256}
    before = leftovers()
    with Engine(config=from_options(settings | options)) as running:
        yield running
    assert leftovers() <= before


def leftovers() -> set[str]:
    """Name the children, the run directories, the shared memory and the threads that exist now."""
    found = {f"process {child.pid}" for child in psutil.Process().children(recursive=True)}
    found |= {str(path) for path in Path(tempfile.gettempdir()).glob("banyan-*") if owned(path)}
    found |= {str(path) for path in Path("/dev/shm").glob("*banyan*")}  # noqa: S108
    return found | {thread.name for thread in threading.enumerate() if thread.name in ("supervisor", "front")}


def owned(path: Path) -> bool:
    """Tell whether this process holds a run directory open; others may run tests at the same time."""
    links = (link for link in Path("/proc/self/fd").iterdir())
    return any(os.path.realpath(link) == str(path) for link in links)


def until(condition: Callable[[], bool], what: str, limit_s: float = WAIT_S) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {limit_s:g} s")
        threading.Event().wait(0.005)


def pid_of(running: Engine, name: str) -> int:
    """Find the process of a name."""
    return running.pids[name]


def free_pages(running: Engine) -> bool:
    """Tell whether every page of every replica is free or only cached."""
    replicas = running.get_server_info()["replicas"]
    return all(one.held_pages == 0 and one.free_pages + one.cached_pages == one.total_pages for one in replicas)


def greedy(prompt: str, num_tokens: int) -> Ask:
    """Make a greedy request of exactly so many tokens."""
    return make_ask(prompt, SamplingParams(temperature=0.0, max_new_tokens=num_tokens, ignore_eos=True))


def serve(running: Engine, asks: Sequence[Ask], during: Callable[[list[Ledger]], None] | None = None) -> list[Ledger]:
    """Stream requests at once, do something meanwhile, and return what came. Nothing may take for ever."""
    ledgers = [Ledger(ask) for ask in asks]

    async def main() -> None:
        async with asyncio.timeout(60):
            await run_streams(running, ledgers, (lambda: during(ledgers)) if during is not None else None)

    asyncio.run(main())
    return ledgers


def under_way(ledgers: list[Ledger], share: float = 0.3) -> None:
    """Wait until a share of all tokens has come."""
    total = sum(len(tokens) for ledger in ledgers for tokens in ledger.ask.tokens)
    until(lambda: sum(ledger.num_tokens() for ledger in ledgers) >= share * total, "progress")


def findings(ledgers: list[Ledger]) -> list[str]:
    """List everything that is wrong with what came."""
    return [finding for ledger in ledgers for finding in ledger.findings]


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal."""
    os.kill(pid, number)
