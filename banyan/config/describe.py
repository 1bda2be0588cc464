"""Settings in words: the help of a command, the table of the docs, and a settled config as a YAML file."""

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import yaml

from banyan.config.fields import Leaf, Value, all_leaves, as_text, group_leaves, value_at
from banyan.config.spec import EngineConfig

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_YAML_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def flag_help(leaves: Iterable[Leaf]) -> str:
    """List flags, values and defaults for a terminal."""
    blocks: list[str] = []
    for leaf in leaves:
        flags = ", ".join(leaf.flags or (leaf.path_flag,))
        lines = [f"  {flags}", f"      {leaf.text} Takes {leaf.allowed}{_default(leaf)}."]
        lines += [
            f"  {flag}\n      The same as {leaf.main_flag} {as_text(value)}." for flag, value in leaf.switches.items()
        ]
        blocks.append("\n".join(lines))
    return "\n".join(blocks).replace("`", "")


def table() -> str:
    """Write every setting of the engine as Markdown, a table for each group."""
    parts: list[str] = []
    for group in msgspec.structs.fields(EngineConfig):
        parts.append(f"### {group.name}\n\n{group.type.__doc__}\n")
        rows = [_row(leaf) for leaf in group_leaves(group.name, group.type)]
        parts.append(_markdown(("setting", "flags", "values", "default", "meaning"), rows))
    return "\n".join(parts)


def as_yaml(config: EngineConfig, notes: Mapping[str, str]) -> str:
    """Write a config as a file that can be loaded again; `notes` become comments, by path."""
    lines: list[str] = []
    for leaf in all_leaves(EngineConfig):
        if f"{leaf.group}:" not in lines:
            lines.append(f"{leaf.group}:")
        note = f"  # {' '.join(notes[leaf.path].split())}" if leaf.path in notes else ""
        lines.append(f"  {leaf.name}: {_scalar(value_at(config, leaf))}{note}")
    return "\n".join(lines) + "\n"


def _row(leaf: Leaf) -> tuple[str, ...]:
    switches = [f"`{flag}` (= `{as_text(value)}`)" for flag, value in leaf.switches.items()]
    flags = ", ".join([*(f"`{flag}`" for flag in leaf.flags), *switches]) or f"`{leaf.path_flag}`"
    return (
        f"`{leaf.path}`",
        flags,
        leaf.allowed,
        f"`{as_text(leaf.default)}`" if leaf.default != "" else "",
        leaf.text,
    )


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _default(leaf: Leaf) -> str:
    return f"; default {as_text(leaf.default)}" if leaf.default != "" else ""


def _scalar(value: Value) -> str:
    if not isinstance(value, str) or (_PLAIN.fullmatch(value) and value.lower() not in _YAML_WORDS):
        return as_text(value)
    return str(yaml.safe_dump(value, default_style='"', width=float("inf"))).strip()
