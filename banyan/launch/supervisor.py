"""Supervisor: a thread that starts the children, sees each death at once, and restarts the dead one alone."""

import logging
import os
import select
import selectors
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

from banyan.launch.ports import Kind
from banyan.launch.process import ChildProcess, explain, was_deliberate
from banyan.wire.control import Failed, PeerLost, PeerRestarted, Ready

TICK_S = 0.1  # how often clocks are looked at; deaths are seen without waiting for a tick
STACKS_S = 0.5  # what a hung child gets to print its stacks
DEATHS = 1024  # kept for those who ask why
GRACE_S = 2.0  # what a child gets to close its files when the server stops

logger = logging.getLogger(__name__)


class LaunchError(RuntimeError):
    """The server could not start. The message names the process and the cause."""


@dataclass(frozen=True, slots=True)
class ChildPlan:
    """A child to be: what it is, the module to run, and its config for each incarnation."""

    kind: Kind
    index: int
    module: str
    config: Callable[[int], bytes]

    @property
    def name(self) -> str:
        """The child's name in messages."""
        return f"{self.kind} {self.index}"


@dataclass(frozen=True, slots=True)
class Pulse:
    """What a child's flight record says: is it at work, since when is it silent, and which requests are involved."""

    busy: bool
    silent_s: float
    suspects: bytes = b""
    newcomers: bytes = b""


@dataclass(frozen=True, slots=True)
class Rules:
    """When a child is given up on."""

    restart: bool
    budget: int
    window_s: float
    start_timeout_s: float
    watchdog_timeout_s: float
    schema: str


class Outside(Protocol):
    """The supervisor's ties to the rest of the server."""

    def pulse(self, kind: Kind, index: int) -> Pulse | None:
        """Read a child's flight record."""

    def tell(self, news: PeerRestarted | PeerLost) -> None:
        """Tell every front, and the controller."""

    def down(self, news: PeerLost) -> None:
        """Tell the controller that a child is away, perhaps for a moment only."""

    def relay(self, text: bytes) -> None:
        """Pass on what a child wrote to stderr."""


@dataclass(slots=True)
class _Child:
    """A child's present state. `death` is what its successor's readiness will be announced with."""

    plan: ChildPlan
    process: ChildProcess | None = None
    incarnation: int = 0
    started_at: float = 0.0
    ready: Ready | None = None
    verdict: str = ""  # why it is about to end, where its exit status would say less
    kill_at: float = 0.0
    death: PeerRestarted | None = None
    restarted_at: deque[float] = field(default_factory=deque)
    lost: str = ""


class Supervisor:
    """Owns the children. All of its work is done in one thread, which every child is tied to."""

    def __init__(self, plans: Sequence[ChildPlan], rules: Rules, outside: Outside) -> None:
        self._rules = rules
        self._outside = outside
        self._children = [_Child(plan) for plan in plans]
        self._deaths: deque[tuple[str, str]] = deque(maxlen=DEATHS)
        self._restarts = dict.fromkeys((plan.name for plan in plans), 0)
        self._launched: Future[dict[str, Ready]] = Future()
        self._stopping = threading.Event()
        self._ending = threading.Lock()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._selector = selectors.DefaultSelector()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    @property
    def restarts(self) -> dict[str, int]:
        """How often each child was restarted."""
        return dict(self._restarts)

    @property
    def deaths(self) -> list[tuple[str, str]]:
        """Which children died, and of what, the latest last."""
        return list(self._deaths)

    @property
    def pids(self) -> dict[str, int]:
        """The process id of each child that runs."""
        return {child.plan.name: process.pid for child in self._children if (process := child.process) is not None}

    def start(self) -> dict[str, Ready]:
        """Start all children and return what each said when it was ready, or raise LaunchError with none left."""
        self._thread.start()
        try:
            return self._launched.result()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all children and the thread; harmless when done twice."""
        with self._ending:
            self._stopping.set()
            if self._wake < 0:
                return
            os.eventfd_write(self._wake, 1)
            if self._thread.ident is not None:
                self._thread.join()
            os.close(self._wake)  # here, not in the thread: until it has ended, it may have to be woken
            self._wake = -1

    def _run(self) -> None:
        try:
            self._selector.register(self._wake, selectors.EVENT_READ, lambda: None)
            for child in self._children:
                self._spawn(child)
            while not self._stopping.is_set():
                for key, _ in self._selector.select(TICK_S):
                    key.data()
                self._look_at_clocks(time.monotonic())
        except BaseException as error:
            logger.exception("the supervisor failed; the server stops")
            self._fail_launch(f"the supervisor failed: {error!r}")
            for child in self._children:
                self._outside.tell(PeerLost(kind=child.plan.kind, index=child.plan.index, cause=repr(error)))
        finally:
            self._end_all()
            self._selector.close()

    def _spawn(self, child: _Child) -> None:
        plan = child.plan
        process = ChildProcess(plan.module, plan.config(child.incarnation), self._outside.relay)
        child.process, child.started_at, child.ready = process, time.monotonic(), None
        child.verdict, child.kill_at = "", 0.0
        self._selector.register(process.ready_fd, selectors.EVENT_READ, lambda: self._hear(child, process))
        self._selector.register(process.stderr_fd, selectors.EVENT_READ, lambda: self._drain(process))
        self._selector.register(process.pidfd, selectors.EVENT_READ, lambda: self._bury(child, process))

    def _drain(self, process: ChildProcess) -> None:
        if not process.drain():
            self._selector.unregister(process.stderr_fd)

    def _hear(self, child: _Child, process: ChildProcess) -> None:
        said = process.hear()
        if said is None:
            return
        self._selector.unregister(process.ready_fd)
        if isinstance(said, Ready) and said.schema == self._rules.schema:
            child.ready = said
            self._welcome(child)
            return
        reason = said.reason if isinstance(said, Failed) else "it speaks another version of the protocol"
        self._fail_launch(f"{child.plan.name} could not start: {reason}")
        child.verdict = f"could not start: {reason}"
        process.signal(signal.SIGKILL)

    def _welcome(self, child: _Child) -> None:
        if child.death is not None:
            logger.warning("%s is back", child.plan.name)
            self._outside.tell(child.death)
            child.death = None
        if not self._launched.done() and all(one.ready is not None for one in self._children):
            self._launched.set_result({one.plan.name: one.ready for one in self._children if one.ready is not None})

    def _bury(self, child: _Child, process: ChildProcess) -> None:
        """A child is dead: find out why, and decide whether it gets a successor."""
        returncode = process.returncode
        if returncode is None:
            return
        watched = self._selector.get_map()
        if process.ready_fd in watched:
            self._hear(child, process)  # its last words may have come together with its death
        for descriptor in process.descriptors:
            if descriptor in watched:
                self._selector.unregister(descriptor)
        process.close()
        child.process = None
        cause = child.verdict or explain(returncode, process.last_line())
        self._fail_launch(f"{child.plan.name} could not start: it {cause}")
        if self._stopping.is_set():
            return
        self._replace(child, cause, deliberate=was_deliberate(returncode) and not child.verdict)

    def _replace(self, child: _Child, cause: str, *, deliberate: bool) -> None:
        plan, now = child.plan, time.monotonic()
        logger.error("%s %s", plan.name, cause)
        self._deaths.append((plan.name, cause))
        self._outside.down(PeerLost(kind=plan.kind, index=plan.index, cause=cause))
        if child.death is None:  # else it died while starting: what matters is still in the first death
            pulse = self._outside.pulse(plan.kind, plan.index)
            child.death = PeerRestarted(
                kind=plan.kind,
                index=plan.index,
                incarnation=child.incarnation + 1,
                cause=cause,
                deliberate=deliberate,
                suspects=pulse.suspects if pulse else b"",
                newcomers=pulse.newcomers if pulse else b"",
            )
        while child.restarted_at and child.restarted_at[0] <= now - self._rules.window_s:
            child.restarted_at.popleft()
        if not self._rules.restart:
            self._give_up(child, cause)
        elif len(child.restarted_at) >= self._rules.budget:
            self._give_up(
                child,
                f"{cause}; it was restarted {len(child.restarted_at)} times within {self._rules.window_s:g} s,"
                " which is all that recovery.budget allows",
            )
        else:
            child.restarted_at.append(now)
            child.incarnation += 1
            self._restarts[plan.name] += 1
            self._spawn(child)

    def _give_up(self, child: _Child, cause: str) -> None:
        child.lost = cause
        logger.error("%s is not restarted", child.plan.name)
        self._outside.tell(PeerLost(kind=child.plan.kind, index=child.plan.index, cause=cause))

    def _look_at_clocks(self, now: float) -> None:
        for child in self._children:
            process = child.process
            if process is None:
                continue
            if child.kill_at:
                if now >= child.kill_at:
                    process.signal(signal.SIGKILL)
            elif child.ready is None:
                if now > child.started_at + self._rules.start_timeout_s:
                    waited = f"was not ready after {self._rules.start_timeout_s:g} s (recovery.start_timeout_s)"
                    last = process.last_line()
                    self._give_stacks(child, process, f"{waited}; its last line was: {last}" if last else waited)
            else:
                pulse = self._outside.pulse(child.plan.kind, child.plan.index)
                if pulse is not None and pulse.busy and pulse.silent_s > self._rules.watchdog_timeout_s:
                    self._give_stacks(child, process, f"made no progress for {pulse.silent_s:.1f} s")

    def _give_stacks(self, child: _Child, process: ChildProcess, cause: str) -> None:
        """Ask a hung child for its stacks, and set the moment of its end."""
        child.verdict, child.kill_at = cause, time.monotonic() + STACKS_S
        process.signal(signal.SIGUSR2)

    def _fail_launch(self, reason: str) -> None:
        if not self._launched.done():
            self._launched.set_exception(LaunchError(reason))
            self._stopping.set()

    def _end_all(self) -> None:
        """Ask all children to end, then insist. A signal that comes just before a child begins to wait does not wake
        it, so it is asked again."""
        alive = [child.process for child in self._children if child.process is not None]
        deadline = time.monotonic() + GRACE_S
        while alive and time.monotonic() < deadline:
            for process in alive:
                process.signal(signal.SIGTERM)
            ends = select.poll()
            for process in alive:
                ends.register(process.pidfd, select.POLLIN)
            ends.poll(TICK_S * 1000)
            for process in alive:
                process.drain()
            alive = [process for process in alive if process.returncode is None]
        for child in self._children:
            if child.process is not None:
                child.process.close()
                child.process = None
