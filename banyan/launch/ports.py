"""PortArgs: one address per channel, per replica and front, in a private directory that dies with its server."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

PREFIX = "banyan-"
MAX_PATH = 107  # what a socket address holds
RANDOM_NAME = 8  # what mkdtemp appends
LONGEST_NAME = 16  # of a file in the directory, with some room
FALLBACK = Path("/tmp")  # noqa: S108 - the directory in it is private

Kind = Literal["scheduler", "detokenizer", "controller"]


class PortArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The addresses of one server. Who receives on a channel binds it, so senders may come and go."""

    directory: str
    dp_size: int
    num_fronts: int

    @property
    def requests(self) -> str:
        """Where fronts send requests: to the controller if there is one, which hears of load and deaths here too."""
        return self._address("controller") if self.dp_size > 1 else self.replica(0)

    @property
    def tokens(self) -> str:
        """Where replicas send tokens: to the detokenizer."""
        return self._address("tokens")

    def replica(self, index: int) -> str:
        """Where a replica receives requests."""
        return self._address(f"replica{index}")

    def front(self, index: int) -> str:
        """Where a front receives text, and news from the supervisor."""
        return self._address(f"front{index}")

    def record(self, kind: Kind, index: int) -> Path:
        """Where a process keeps its flight record."""
        return Path(self.directory, f"{kind}{index}.rec")

    def _address(self, name: str) -> str:
        return f"ipc://{self.directory}/{name}"


class RunDirectory:
    """The directory of one run, mode 0700 and locked while its owner lives.

    An owner that was killed cannot clean up; the lock tells the next server which directories are nobody's."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def create(cls, parent: Path | None = None) -> "RunDirectory":
        """Make a directory of our own, after removing those whose owner is dead."""
        parent = parent or shortest_parent()
        sweep(parent)
        while True:
            path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
            lock = _lock(path)
            if lock is not None:
                return cls(path, lock)
            # Another server swept it before the lock was ours; the next name will do.

    def remove(self) -> None:
        """Delete the directory with all sockets and records in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def shortest_parent() -> Path:
    """Return the temporary folder, or /tmp where its name is too long for a socket address."""
    parent = Path(tempfile.gettempdir())
    longest = len(os.fsencode(parent)) + len(f"/{PREFIX}") + RANDOM_NAME + len("/") + LONGEST_NAME
    return parent if longest <= MAX_PATH else FALLBACK


def sweep(parent: Path) -> list[Path]:
    """Remove the directories of dead owners; return them."""
    removed = []
    for path in _mine(parent):
        lock = _lock(path)
        if lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)
            removed.append(path)
    return removed


def _mine(parent: Path) -> Iterator[Path]:
    for path in sorted(parent.glob(f"{PREFIX}*")):
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue  # its owner was faster
        if status.st_uid == os.getuid() and path.is_dir() and not path.is_symlink():
            yield path


def _lock(path: Path) -> int | None:
    """Lock a directory; None if it is somebody's or gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == path.stat().st_ino:
            return descriptor
    except OSError:
        pass  # held by its owner, or removed since it was opened
    os.close(descriptor)
    return None
