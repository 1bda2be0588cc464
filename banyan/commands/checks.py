"""Checks of this machine: each looks at one thing, says what it found, and what to do if that is bad."""

import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Literal

from banyan.commands.layout import size
from banyan.config.errors import UserError
from banyan.config.host import Host
from banyan.config.load import read
from banyan.config.resolve import resolve
from banyan.launch.ports import MAX_PATH, shortest_parent
from banyan.sources.cache import ModelCache
from banyan.sources.card import model_card
from banyan.sources.inventory import list_models
from banyan.sources.resolve import resolve_source

State = Literal["ok", "warn", "stop"]

_PLATFORMS: Final = ("linux-", "darwin-")
_LITTLE_MEMORY: Final = 1_000_000_000  # the smallest model of the catalogue wants about this


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found; `stop` means that a server would not start."""

    name: str
    state: State
    value: str
    advice: str = ""


def check_python() -> Finding:
    """Name the interpreter. That it is new enough, its installer has seen to."""
    return Finding("python", "ok", f"{platform.python_version()} at {sys.executable}")


def check_platform(host: Host) -> Finding:
    """See whether the system has the sockets and signals that the processes need."""
    if host.platform.startswith(_PLATFORMS):
        return Finding("platform", "ok", host.platform)
    return Finding("platform", "stop", host.platform, "use Linux or macOS; on Windows, WSL")


def check_cpu(host: Host) -> Finding:
    """Name the processor."""
    return Finding("cpu", "ok", f"{host.cpu}, {host.num_cores} cores")


def check_memory(host: Host) -> Finding:
    """See whether a small model fits."""
    value = f"{size(host.available_bytes)} free of {size(host.total_bytes)}"
    if host.available_bytes >= _LITTLE_MEMORY:
        return Finding("memory", "ok", value)
    return Finding("memory", "warn", value, "end other programs, or lower --max-total-tokens and --context-length")


def check_torch(package: str = "torch") -> Finding:
    """See whether the library that computes is installed, without loading it: that takes seconds."""
    try:
        if importlib.util.find_spec(package) is not None:
            return Finding("torch", "ok", version(package))
    except PackageNotFoundError:
        return Finding("torch", "warn", "of unknown version", "install it again: pip install --force-reinstall torch")
    return Finding("torch", "stop", "not installed", "pip install torch (only the model `oracle` runs without it)")


def check_cache(folder: Path) -> Finding:
    """See whether models can be kept."""
    held = sum(_num_bytes(path) for path in folder.rglob("*"))
    parent = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    value = f"{folder}, {size(held)}, {size(shutil.disk_usage(parent).free)} free on its disk"
    if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
        return Finding("cache", "ok", value)
    return Finding("cache", "warn", value, f"{parent} cannot be written to: set BANYAN_CACHE_DIR to a folder of yours")


def check_models(folder: Path) -> Iterator[Finding]:
    """See whether each model is as it was downloaded."""
    models = list_models(folder)
    if not models:
        yield Finding("models", "ok", "none", "`banyan pull smollm2` fetches a small one")
    for model in models:
        try:
            ModelCache(folder).find(model.name)
        except UserError as error:
            yield Finding("model", "warn", model.name, str(error))
        else:
            yield Finding("model", "ok", f"{model.name}, {size(model.num_bytes)}")


def check_settings(
    variables: Mapping[str, str], shown: Mapping[str, str], host: Host, cache: Path
) -> Iterator[Finding]:
    """See whether the environment asks for something that can be had; `shown` is what of it may be told."""
    for name, value in shown.items():
        yield Finding("variable", "ok", f"{name}={value}")
    try:
        config = read((), variables).config
        settled = resolve(config, host, model_card(resolve_source(config.model.path, cache, download=False)))
    except UserError as error:
        yield Finding("settings", "stop", "a server would not start", str(error))
    else:
        yield Finding(
            "settings", "ok", f"model {settled.served_name}, {settled.max_total_tokens:,} tokens of KV memory"
        )


def check_temporary(parent: Callable[[], Path] = shortest_parent) -> Finding:
    """See whether there is a folder for sockets, with a name that is short enough for them."""
    advice = f"set TMPDIR to a folder that you can write to, with a name well below {MAX_PATH} characters"
    try:
        folder = parent()
        with tempfile.TemporaryDirectory(prefix="banyan-check-", dir=folder):
            pass
    except OSError as error:
        return Finding("temp", "stop", f"no temporary folder can be used: {error.strerror or error}", advice)
    chosen = Path(tempfile.gettempdir())
    if folder == chosen:
        return Finding("temp", "ok", f"{folder}, {len(os.fsencode(folder))} characters")
    value = f"{chosen} is too long for the address of a socket, which has {MAX_PATH} characters"
    return Finding("temp", "ok", value, f"nothing: {folder} is used for sockets")


def _num_bytes(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() and not path.is_symlink() else 0
    except OSError:
        return 0  # gone since it was listed: a download may be under way
