"""Result and Row: what a benchmark measured, on what, at which commit; written as JSON so that runs can be compared."""

import shutil
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from banyan.config.host import probe

Figure = Literal["ms_per_token", "out_tok_s", "in_tok_s", "ready_s", "rss_mb", "ratio", "count", "ms", "us"]
Better = Literal["higher", "lower"]

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = ("msgspec", "numpy", "pyzmq", "tokenizers", "torch")


class ResultError(ValueError):
    """A result file that cannot be read."""


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One figure of one workload. What was not measured is absent."""

    model: str
    workload: str
    figure: Figure
    better: Better
    runs: Annotated[tuple[float, ...], Meta(min_length=1)]  # every run after warm-up
    value: float  # their median
    peer: float | None = None  # the best other engine's value
    peer_name: str = ""
    peer_runs: tuple[float, ...] = ()
    target: float | None = None
    limit: float | None = None  # what the hardware could do
    extra: dict[str, bool | int | float | str] = {}  # in the file these stand beside the other fields

    @property
    def key(self) -> tuple[str, str, str]:
        """What must be equal for two rows to be compared."""
        return (self.model, self.workload, self.figure)


class Machine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where it was measured."""

    cpu: str
    cores: int
    gpu: str = ""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """All rows of one benchmark."""

    name: str
    commit: str
    date: str
    host: Machine
    versions: dict[str, str]
    rows: tuple[Row, ...]


def measured(
    workload: str,
    figure: Figure,
    better: Better,
    runs: Sequence[float],
    *,
    model: str = "oracle",
    peer: float | None = None,
    target: float | None = None,
    limit: float | None = None,
    extra: Mapping[str, bool | int | float | str] | None = None,
) -> Row:
    """Make a row from its runs; the value is their median."""
    return Row(
        model=model,
        workload=workload,
        figure=figure,
        better=better,
        runs=tuple(runs),
        value=statistics.median(runs),
        peer=peer,
        target=target,
        limit=limit,
        extra=dict(extra or {}),
    )


def stamp(name: str, rows: Sequence[Row]) -> Result:
    """Put date, commit, machine and versions on rows that were just measured."""
    host = probe()
    return Result(
        name=name,
        commit=commit(ROOT),
        date=datetime.now(UTC).date().isoformat(),
        host=Machine(cpu=host.cpu, cores=host.num_cores, gpu=_gpu()),
        versions={"python": python_version(), **_versions(PACKAGES)},
        rows=tuple(rows),
    )


def write(result: Result, folder: Path = RESULTS) -> Path:
    """Write a result to `folder`/NAME.json."""
    builtins = msgspec.to_builtins(result)
    builtins["rows"] = [_without_extra(row) for row in builtins["rows"]]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.name}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(builtins), indent=2) + b"\n")
    return path


def read(path: Path) -> Result:
    """Read a result file."""
    try:
        builtins = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        builtins["rows"] = [_with_extra(row) for row in builtins.get("rows", [])]
        return msgspec.convert(builtins, Result)
    except OSError as error:
        raise ResultError(f"cannot read {path}: {error.strerror}") from None
    except (msgspec.DecodeError, AttributeError, TypeError) as error:
        raise ResultError(f"{path} is not a result file: {error}") from None


def commit(folder: Path) -> str:
    """Name what was measured: the hash of the commit, marked where files differ from it."""
    head = _output("git", "-C", str(folder), "rev-parse", "HEAD")
    changes = _output("git", "-C", str(folder), "status", "--porcelain", "--untracked-files=no")
    return f"{head or 'unknown'}{'+changes' if changes else ''}"


def _without_extra(row: dict[str, Any]) -> dict[str, Any]:
    extra = row.pop("extra", {})
    return {**row, **extra}


def _with_extra(row: dict[str, Any]) -> dict[str, Any]:
    known = {name: value for name, value in row.items() if name in Row.__struct_fields__}
    return {**known, "extra": {name: value for name, value in row.items() if name not in known}}


def _versions(packages: Sequence[str]) -> dict[str, str]:
    """Versions of those packages that are installed."""
    found: dict[str, str] = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _gpu() -> str:
    names = _output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").splitlines()
    return ", ".join(sorted(set(names)))


def _output(program: str, *arguments: str) -> str:
    """What a program prints, or nothing where it is missing or fails."""
    path = shutil.which(program)
    if path is None:
        return ""
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
