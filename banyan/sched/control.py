"""ControlTable: control messages by type. The loop has no feature in it; a new message is a new row here."""

from collections.abc import Callable
from typing import NamedTuple

from banyan.plan import Executor
from banyan.sched.req import Phase
from banyan.sched.scheduler import Scheduler
from banyan.wire.control import (
    CloseSessionReqInput,
    ContinueGenerationReqInput,
    ControlReply,
    ControlReq,
    FlushCacheReqInput,
    GetServerInfoReq,
    OpenSessionReqInput,
    PauseGenerationReqInput,
    ProfileReq,
    ServerInfo,
)


class Outcome(NamedTuple):
    """What a handler answers."""

    ok: bool = True
    message: str = ""
    info: ServerInfo | None = None


Handler = Callable[[Scheduler, ControlReq], Outcome]


def _flush(scheduler: Scheduler, _: ControlReq) -> Outcome:
    pages = scheduler.cache.flush()
    return Outcome(message=f"{pages} pages forgotten")


def _info(scheduler: Scheduler, _: ControlReq) -> Outcome:
    return Outcome(info=scheduler.info())


def _pause(scheduler: Scheduler, request: ControlReq) -> Outcome:
    scheduler.paused = True
    retracted = 0
    if isinstance(request, PauseGenerationReqInput) and request.retract:
        roster = scheduler.roster
        for req in [*roster.running.values(), *roster.prefilling.values()]:
            if req.phase in (Phase.DECODE, Phase.PREFILL):
                roster.retract(req)
                retracted += 1
    return Outcome(message=f"paused, {retracted} requests retracted")


def _continue(scheduler: Scheduler, _: ControlReq) -> Outcome:
    scheduler.paused = False
    return Outcome(message="running")


def _open_session(scheduler: Scheduler, request: ControlReq) -> Outcome:
    if not isinstance(request, OpenSessionReqInput):
        return Outcome(False, "not a session request")
    opened = scheduler.roster.sessions.open(request.id)
    return Outcome(opened, "" if opened else f"session {request.id!r} is open already")


def _close_session(scheduler: Scheduler, request: ControlReq) -> Outcome:
    if not isinstance(request, CloseSessionReqInput):
        return Outcome(False, "not a session request")
    closed = scheduler.roster.sessions.close(request.id)
    return Outcome(closed, "" if closed else f"there is no session {request.id!r}")


_HANDLERS: dict[type[ControlReq], Handler] = {
    FlushCacheReqInput: _flush,
    GetServerInfoReq: _info,
    PauseGenerationReqInput: _pause,
    ContinueGenerationReqInput: _continue,
    OpenSessionReqInput: _open_session,
    CloseSessionReqInput: _close_session,
}
_QUIET = (PauseGenerationReqInput,)  # handled with nothing in flight
_DEVICE = (ProfileReq,)  # the executor's business


class ControlTable:
    """Finds the handler of a control message; those for the device pass on to the executor."""

    def __init__(self, scheduler: Scheduler, executor: Executor) -> None:
        self._scheduler = scheduler
        self._executor = executor

    def wants_quiet(self, request: ControlReq) -> bool:
        """Tell whether the message must find nothing in flight."""
        return isinstance(request, _QUIET)

    def handle(self, request: ControlReq) -> ControlReply:
        """Carry out a control message."""
        replica = self._scheduler.limits.replica
        if isinstance(request, _DEVICE):
            reply = self._executor.control(request)
            if reply is not None:
                return reply
            outcome = Outcome(False, f"this device does not support {type(request).__name__}")
        else:
            outcome = _HANDLERS[type(request)](self._scheduler, request)
        return ControlReply(
            front=request.front,
            call=request.call,
            replica=replica,
            ok=outcome.ok,
            message=outcome.message,
            info=outcome.info,
        )
