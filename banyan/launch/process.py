"""ChildProcess: one child as its parent sees it: started by module name, heard over pipes, its death explained."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import msgspec

from banyan.wire.control import Failed, FromChild

TAIL_BYTES = 8192  # of a child's last words
READ_BYTES = 65536
DELIBERATE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})

_from_child = msgspec.json.Decoder(FromChild)


class ChildProcess:
    """A running child. The thread that makes it must outlive it: the kernel ties the child's life to that thread."""

    def __init__(self, module: str, config: bytes, relay: Callable[[bytes], None]) -> None:
        """Start `python -m module`; `config` reaches it on an inherited descriptor, its stderr goes to `relay`."""
        self._relay = relay
        self._tail = b""
        self._said = b""
        config_fd = os.memfd_create("config", os.MFD_CLOEXEC)
        self.ready_fd, ready_write = os.pipe()
        self.stderr_fd, stderr_write = os.pipe()
        try:
            os.write(config_fd, config)
            os.lseek(config_fd, 0, os.SEEK_SET)
            self._popen = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(config_fd), str(ready_write)],
                stdin=subprocess.DEVNULL,
                stdout=stderr_write,
                stderr=stderr_write,
                pass_fds=(config_fd, ready_write),
                process_group=0,  # a Ctrl-C in the terminal is for the parent alone
            )
        finally:
            for descriptor in (config_fd, ready_write, stderr_write):
                os.close(descriptor)
        self.pid = self._popen.pid
        self.pidfd = os.pidfd_open(self.pid)
        os.set_blocking(self.ready_fd, False)
        os.set_blocking(self.stderr_fd, False)

    @property
    def returncode(self) -> int | None:
        """The exit status if the child is dead (and then reaped); minus the signal's number if one killed it."""
        return self._popen.poll()

    @property
    def descriptors(self) -> tuple[int, int, int]:
        """What to watch: readable means dead, spoke, logged."""
        return self.pidfd, self.ready_fd, self.stderr_fd

    def hear(self) -> FromChild | None:
        """Return the child's one message about its start once it is complete."""
        while chunk := _read(self.ready_fd):
            self._said += chunk
        if chunk is None or not self._said:
            return None
        try:
            said: FromChild = _from_child.decode(self._said)
        except msgspec.MsgspecError as error:
            return Failed(reason=f"it sent a start message that cannot be read: {error}")
        return said

    def drain(self) -> bool:
        """Relay what the child wrote to stderr; False at its end."""
        while chunk := _read(self.stderr_fd):
            self._relay(chunk)
            self._tail = (self._tail + chunk)[-TAIL_BYTES:]
        return chunk is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; a child that is dead already does not mind."""
        if self.returncode is None:
            signal.pidfd_send_signal(self.pidfd, number)

    def close(self) -> None:
        """Kill the child if it lives, wait for its end, let go of the pipes."""
        self.signal(signal.SIGKILL)
        self._popen.wait()
        self.drain()
        for descriptor in self.descriptors:
            os.close(descriptor)

    def last_line(self) -> str:
        """Return the last thing that the child wrote to stderr."""
        lines = [line.strip() for line in self._tail.decode(errors="replace").splitlines()]
        return next((line for line in reversed(lines) if line), "")


def explain(returncode: int, last_line: str) -> str:
    """Say in words why a process ended."""
    if returncode < 0:
        return f"was killed by signal {-returncode} ({signal.strsignal(-returncode) or 'unknown'})"
    cause = f"ended with status {returncode}"
    return f"{cause}; its last line was: {last_line}" if last_line else cause


def was_deliberate(returncode: int) -> bool:
    """Tell whether somebody ended the process from outside; then no request's own fault is likely."""
    return -returncode in DELIBERATE


def _read(descriptor: int) -> bytes | None:
    """Read what is there: None if nothing yet, empty at the end."""
    try:
        return os.read(descriptor, READ_BYTES)
    except BlockingIOError:
        return None
