"""banyan ls: list the models in the cache."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import asdict

from banyan.commands.arguments import parse
from banyan.commands.layout import as_json, columns, size
from banyan.config.env import cache_dir
from banyan.sources.inventory import CachedModel, list_models


def help_text() -> str:
    """Say how `banyan ls` is used."""
    return "usage: banyan ls [--json]"


def prepare(argv: Sequence[str]) -> Callable[[], int]:
    """Read the arguments of `banyan ls`."""
    switches = parse("ls", argv, switches=("--json",)).switches
    return functools.partial(_run, "--json" in switches)


def listed(models: Sequence[CachedModel]) -> str:
    """Write models as a table."""
    if not models:
        return "no models are here; `banyan pull smollm2` fetches a small one, `banyan pull --help` lists others"
    rows = [(model.name, size(model.num_bytes), model.kind, model.licence or "-", model.source) for model in models]
    return columns([("NAME", "SIZE", "KIND", "LICENCE", "SOURCE"), *rows])


def _run(is_json: bool) -> int:
    models = list_models(cache_dir())
    plain = [{**asdict(model), "path": str(model.path)} for model in models]
    print(as_json(plain) if is_json else listed(models))
    return 0
