"""launch_engine: start the process tree, hand out what a front needs to use it, and leave nothing behind.

Children are named by module, as strings, so that the process that launches them never loads what they need.
"""

import atexit
import contextlib
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import msgspec

from banyan.config.resolve import Settled
from banyan.launch.child import ChildArgs
from banyan.launch.news import News
from banyan.launch.ports import Kind, PortArgs, RunDirectory
from banyan.launch.supervisor import ChildPlan, Rules, Supervisor
from banyan.wire.codec import schema_hash

MODULES: dict[Kind, str] = {
    "scheduler": "banyan.launch.scheduler",
    "detokenizer": "banyan.launch.detokenizer",
    "controller": "banyan.launch.router",
}
ATTACHMENT = "tree.json"


class Attachment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that a front needs to know of a running tree."""

    settled: Settled
    ports: PortArgs
    max_total_num_tokens: int
    max_req_input_len: int


class Tree:
    """A running process tree. `shutdown` ends it; so do the end of the interpreter and SIGTERM."""

    def __init__(self, settled: Settled) -> None:
        self._owner = os.getpid()
        logging.getLogger("banyan").setLevel(settled.config.observe.log_level.upper())
        with contextlib.ExitStack() as stack:
            directory = RunDirectory.create()
            stack.callback(directory.remove)
            parallel = settled.config.parallel
            ports = PortArgs(
                directory=str(directory.path), dp_size=parallel.dp_size, num_fronts=parallel.tokenizer_worker_num
            )
            news = News(ports)
            stack.callback(news.close)
            self.supervisor = Supervisor(plan_children(settled, ports), make_rules(settled), news)
            stack.callback(self.supervisor.stop)
            ready = self.supervisor.start()
            replicas = [ready[f"scheduler {index}"] for index in range(parallel.dp_size)]
            self.attachment = Attachment(
                settled=settled,
                ports=ports,
                max_total_num_tokens=min(said.max_total_num_tokens for said in replicas),
                max_req_input_len=min(said.max_req_input_len for said in replicas),
            )
            (directory.path / ATTACHMENT).write_bytes(msgspec.json.encode(self.attachment))
            self._cleanup = stack.pop_all()
        atexit.register(self.shutdown)
        _exit_on_sigterm()

    def shutdown(self) -> None:
        """End every child and remove the run directory; harmless when done twice, or in a fork of the owner."""
        if os.getpid() == self._owner:
            self._cleanup.close()
            atexit.unregister(self.shutdown)


def launch_engine(settled: Settled) -> Tree:
    """Start schedulers, detokenizer, and with several replicas the controller; return when all are ready.

    Raises LaunchError with the cause, and nothing left running, if one of them cannot start."""
    return Tree(settled)


def plan_children(settled: Settled, ports: PortArgs) -> list[ChildPlan]:
    """List the children of a server."""
    names: list[tuple[Kind, int]] = [("scheduler", index) for index in range(ports.dp_size)]
    names.append(("detokenizer", 0))
    if ports.dp_size > 1:
        names.append(("controller", 0))
    return [_plan(kind, index, settled, ports) for kind, index in names]


def make_rules(settled: Settled) -> Rules:
    """Gather what the supervisor goes by."""
    recovery = settled.config.recovery
    return Rules(
        restart=recovery.mode == "restart",
        budget=recovery.budget,
        window_s=recovery.window_s,
        start_timeout_s=recovery.start_timeout_s,
        watchdog_timeout_s=settled.config.observe.watchdog_timeout_s,
        schema=schema_hash(),
    )


def read_attachment(directory: Path) -> Attachment:
    """Read what a tree says of itself in its run directory."""
    return msgspec.json.decode((directory / ATTACHMENT).read_bytes(), type=Attachment)


def _plan(kind: Kind, index: int, settled: Settled, ports: PortArgs) -> ChildPlan:
    def config(incarnation: int) -> bytes:
        return msgspec.json.encode(
            ChildArgs(
                kind=kind,
                index=index,
                incarnation=incarnation,
                parent_pid=os.getpid(),
                settled=settled,
                ports=ports,
            )
        )

    return ChildPlan(kind, index, MODULES[kind], config)


def _exit_on_sigterm() -> None:
    """Let SIGTERM end the interpreter in order, unless the program has its own idea."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _exit)


def _exit(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)
