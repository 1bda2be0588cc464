"""banyan version: print the installed version."""

from collections.abc import Callable, Sequence
from importlib.metadata import version

from banyan.config.errors import UserError


def help_text() -> str:
    """Say how `banyan version` is used."""
    return "usage: banyan version"


def prepare(argv: Sequence[str]) -> Callable[[], int]:
    """Read the arguments of `banyan version`: there are none."""
    if argv:
        raise UserError(f"version takes no arguments, but {argv[0]!r} was given")
    return _run


def _run() -> int:
    print(f"banyan {version('banyan-llm')}")
    return 0
