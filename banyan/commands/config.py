"""banyan config: show what a command line settles to, or print the table of all settings."""

import functools
from collections.abc import Callable, Sequence

from banyan.config.describe import as_yaml, flag_help, table
from banyan.config.env import cache_dir, setting_variables
from banyan.config.errors import UserError, suggest
from banyan.config.fields import value_at
from banyan.config.host import Host, probe
from banyan.config.load import ENGINE_LEAVES, FILE_LEAVES, Loaded, read
from banyan.config.resolve import resolve
from banyan.sources.card import model_card
from banyan.sources.resolve import resolve_source

_HELP = """usage: banyan config show [flags]
       banyan config table

show   print every setting as it is settled on this machine, with its reason, as a file for --config
table  print the table of all settings, as in docs/configuration.md

flags:
"""
_VERBS = ("show", "table")


def help_text() -> str:
    """Say how `banyan config` is used."""
    return _HELP + flag_help((*FILE_LEAVES, *ENGINE_LEAVES))


def prepare(argv: Sequence[str]) -> Callable[[], int]:
    """Read the arguments of `banyan config`."""
    verb, *rest = argv or [""]
    if verb not in _VERBS:
        raise UserError(f"config needs one of the verbs {', '.join(_VERBS)}, not {verb!r}{suggest(verb, _VERBS)}")
    if verb == "table":
        if rest:
            raise UserError(f"config table takes no arguments, but {rest[0]!r} was given")
        return functools.partial(_print, table())
    loaded = read(rest, setting_variables())
    if loaded.words:
        raise UserError(f"config show takes flags only, but {loaded.words[0]!r} was given")
    return functools.partial(_show, loaded)


def shown(loaded: Loaded, host: Host) -> str:
    """Write the settled config as YAML; each value that is no default says where it comes from."""
    settled = resolve(
        loaded.config, host, model_card(resolve_source(loaded.config.model.path, cache_dir(), download=False))
    )
    notes = dict(loaded.origins)
    for leaf in ENGINE_LEAVES:
        start = f"{leaf.path} = {value_at(settled.config, leaf)}: "
        for reason in settled.reasons:
            if reason.startswith(start):
                notes[leaf.path] = f"{notes.get(leaf.path, 'auto')}: {reason.removeprefix(start)}"
    return as_yaml(settled.config, notes)


def _show(loaded: Loaded) -> int:
    return _print(shown(loaded, probe()))


def _print(text: str) -> int:
    print(text.rstrip("\n"))
    return 0
