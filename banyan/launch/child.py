"""run_child: what every child process does before and around its own work."""

import ctypes
import faulthandler
import logging
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

import msgspec
import setproctitle

from banyan.config.errors import UserError
from banyan.config.resolve import Settled
from banyan.launch.ports import Kind, PortArgs
from banyan.obs.log import setup_logging
from banyan.obs.watchdog import Watchdog
from banyan.wire.audit import install_audit_hook
from banyan.wire.codec import schema_hash
from banyan.wire.control import Failed, FromChild, Ready

PR_SET_PDEATHSIG = 1

logger = logging.getLogger(__name__)


class ChildArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a child is told by its parent, as JSON on an inherited descriptor."""

    kind: Kind
    index: int
    incarnation: int
    parent_pid: int
    settled: Settled
    ports: PortArgs


class Stopped(BaseException):
    """The parent asked for an orderly end."""


class Life:
    """What a child's main function is given: its orders, its watchdog, and its one message to the parent."""

    def __init__(self, args: ChildArgs, watchdog: Watchdog, say: Callable[[FromChild], None]) -> None:
        self.args = args
        self.watchdog = watchdog
        self._say = say

    def ready(self, *, max_total_num_tokens: int = 0, max_req_input_len: int = 0) -> None:
        """Tell the parent that this process serves."""
        self._say(
            Ready(
                schema=schema_hash(),
                pid=os.getpid(),
                max_total_num_tokens=max_total_num_tokens,
                max_req_input_len=max_req_input_len,
            )
        )


def run_child(main: Callable[[Life], None]) -> NoReturn:
    """Run `main` as the whole life of this process."""
    config_fd, ready_fd = (int(word) for word in sys.argv[1:3])
    _die_with_parent()
    faulthandler.enable()
    install_audit_hook()
    signal.signal(signal.SIGTERM, _stop)
    say = _Pipe(ready_fd).say
    try:
        with os.fdopen(config_fd, "rb") as file:
            args = msgspec.json.decode(file.read(), type=ChildArgs)
        if os.getppid() != args.parent_pid:  # it died before the kernel knew that we should die with it
            sys.exit(1)
        setproctitle.setproctitle(f"banyan: {args.kind} {args.index}")
        observe = args.settled.config.observe
        setup_logging(args.kind, args.index, level=observe.log_level, style=observe.log_format)
        watchdog = Watchdog(observe.watchdog_timeout_s, sys.stderr)
        watchdog.start()
        main(Life(args, watchdog, say))
    except Stopped:
        # End as an unhandled SIGTERM would, so that the parent sees what ended us.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    except Exception as error:
        if isinstance(error, UserError):  # the sentence says all; the parent shows it
            logger.error("this process ends: %s", error)
        else:
            logger.exception("this process ends")
        say(Failed(reason=str(error) or type(error).__name__))
        logging.shutdown()
        # No orderly exit: threads of libraries must not keep a broken process alive.
        os._exit(1)
    sys.exit(0)


class _Pipe:
    """The way to the parent: one message, then it is closed."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def say(self, message: FromChild) -> None:
        if self._descriptor >= 0:
            with os.fdopen(self._descriptor, "wb") as file:
                file.write(msgspec.json.encode(message))
            self._descriptor = -1


def _die_with_parent() -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")


def _stop(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the parent repeats itself; once is enough
    raise Stopped
