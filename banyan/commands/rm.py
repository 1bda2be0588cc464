"""banyan rm: delete a model from the cache."""

import functools
from collections.abc import Callable, Sequence

from banyan.commands.arguments import parse
from banyan.commands.layout import size
from banyan.config.env import cache_dir
from banyan.sources.catalogue import find_model
from banyan.sources.inventory import list_models, remove_model


def help_text() -> str:
    """Say how `banyan rm` is used."""
    return "usage: banyan rm MODEL\n\nMODEL is a name that `banyan ls` lists, or its alias."


def prepare(argv: Sequence[str]) -> Callable[[], int]:
    """Read the arguments of `banyan rm`."""
    (name,) = parse("rm", argv, takes=("a model",)).words
    return functools.partial(_run, name)


def _run(name: str) -> int:
    known = find_model(name)
    full = name if known is None else known.name
    freed = sum(model.num_bytes for model in list_models(cache_dir()) if model.name == full)
    remove_model(cache_dir(), name)
    print(f"{full} is removed, {size(freed)} are free again")
    return 0
