"""EventLoop: the only event loop. Receive, plan, launch, commit.

`depth` steps may be in flight: that is the whole difference between normal (1), overlap (2 and more) and pipeline (one
per stage). What kind of server this is, is the role's business; how a step is run, the executor's.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from banyan.plan import Executor, Pending, Step, StepResult
from banyan.sched.control import ControlTable
from banyan.sched.idle import self_check_during_idle
from banyan.sched.scheduler import Scheduler
from banyan.wire.control import ControlReq, ToDetokenizer, ToScheduler
from banyan.wire.request import (
    AbortAllReq,
    AbortReq,
    ProbeReq,
    TokenizedEmbeddingReqInput,
    TokenizedGenerateReqInput,
)

_AUDIT_S_PER_PAGE = 0.001  # time between two audits: so they take less than a hundredth of it


class Turn(NamedTuple):
    """Everything from outside that a turn of the loop may depend on."""

    now: float
    messages: list[ToScheduler]


class Observer(Protocol):
    """Is told what happens; decides nothing. Recorders, flight records and watchdogs are observers."""

    def turn(self, turn: Turn) -> None:
        """A turn begins."""

    def launched(self, step: Step) -> None:
        """A step is about to be handed to the executor."""

    def committed(self, step: Step, result: StepResult) -> None:
        """A step's result has come."""

    def failed(self, step: Step, error: str) -> None:
        """A step raised."""


class EventLoop:
    """One turn at a time, so that whoever drives it (a process, a test, a replay) owns time and sockets."""

    def __init__(
        self,
        inbox: Callable[[], Turn],
        scheduler: Scheduler,
        executor: Executor,
        send: Callable[[ToDetokenizer], None],
        observers: tuple[Observer, ...] = (),
        check_every: int = 0,
    ) -> None:
        self._inbox = inbox
        self._scheduler = scheduler
        self._executor = executor
        self._send = send
        self._observers = observers
        self._check_every = check_every
        self._control = ControlTable(scheduler, executor)
        self._in_flight: deque[tuple[Step, Pending]] = deque()
        self._turns = 0
        self._idle_checked = False
        self._next_check_at = 0.0
        self._now = 0.0

    def turn(self) -> bool:
        """Take one turn. False: there was nothing to do, and nothing will be until a message comes."""
        turn = self._inbox()
        self._now = turn.now
        for observer in self._observers:
            observer.turn(turn)
        for message in turn.messages:
            self._handle(message)
        scheduler = self._scheduler
        waiting = scheduler.role.poll(turn.now)
        step = scheduler.plan(turn.now)
        busy = waiting or step is not None or bool(self._in_flight)
        if step is not None:
            self._launch(step)
            self._commit(keep=scheduler.limits.depth - 1)
        else:
            self._commit(keep=max(0, len(self._in_flight) - 1))  # free one lane, then plan again
        for output in scheduler.outbox():
            self._send(output)
        self._look_after(busy)
        return busy or bool(turn.messages)

    # ------------------------------------------------------------------ messages

    def _handle(self, message: ToScheduler) -> None:
        now, scheduler = self._now, self._scheduler
        match message:
            case TokenizedGenerateReqInput() | TokenizedEmbeddingReqInput():
                scheduler.receive(message, now)
            case AbortReq():
                scheduler.abort(message, now)
            case AbortAllReq():
                scheduler.abort_all(message, now)
            case ProbeReq():
                scheduler.probe(message)
            case ControlReq():
                if self._control.wants_quiet(message):
                    self._commit(keep=0)
                scheduler.reply(self._control.handle(message))

    # ------------------------------------------------------------------ steps

    def _launch(self, step: Step) -> None:
        for observer in self._observers:
            observer.launched(step)
        try:
            forward = self._executor.forward(step)  # the device is busy from here on
        except Exception as error:
            self._fail(step, error)
            return
        if step.needs_history and not self._commit(keep=0):  # the host catches up while the device runs
            return
        try:
            pending = self._executor.sample(forward, self._scheduler.masks(step))
        except Exception as error:
            self._fail(step, error)
            return
        self._in_flight.append((step, pending))

    def _commit(self, keep: int) -> bool:
        """Commit until only `keep` steps are in flight. False: one failed, and nothing is in flight any more."""
        while len(self._in_flight) > keep:
            step, pending = self._in_flight[0]
            try:
                result = pending.wait()
            except Exception as error:
                self._fail(step, error)
                return False
            self._in_flight.popleft()
            for observer in self._observers:
                observer.committed(step, result)
            self._scheduler.commit(step, result, self._now)
        return True

    def _fail(self, step: Step, error: Exception) -> None:
        """A step raised: the device forgets what it was doing, the scheduler finds the culprit."""
        if self._in_flight and self._in_flight[0][0] is not step and not self._commit(keep=0):
            return  # an older step failed too, and took this one with it
        reason = f"{type(error).__name__}: {error}"
        for observer in self._observers:
            observer.failed(step, reason)
        self._in_flight.clear()
        self._executor.recover()
        self._scheduler.fail(step, reason, self._now)

    # ------------------------------------------------------------------ idle

    def _look_after(self, busy: bool) -> None:
        self._turns += 1
        if self._check_every and self._turns % self._check_every == 0:
            self_check_during_idle(self._scheduler)
        if busy:
            self._idle_checked = False
        elif not self._idle_checked and self._now >= self._next_check_at and self._scheduler.is_idle:
            self._idle_checked = True
            self._scheduler.idle()
            self_check_during_idle(self._scheduler)
            # An audit costs microseconds a cached page, and a request may come meanwhile: large trees wait longer.
            self._next_check_at = self._now + self._scheduler.cache.usage().cached * _AUDIT_S_PER_PAGE
