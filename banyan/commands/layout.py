"""How verbs write: sizes, aligned columns, JSON, and dim text where the terminal has it."""

from collections.abc import Sequence
from typing import TextIO

import msgspec

_GAP = "  "
_GIGABYTE = 1_000_000_000


def size(num_bytes: int) -> str:
    """Write a size as people read it."""
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= _GIGABYTE else f"{num_bytes / 1e6:.0f} MB"


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Align rows of equal length; the last column ends where its text does."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = (_GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def as_json(value: object) -> str:
    """Write plain values for a program to read."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def dim(text: str, stream: TextIO, *, wants_colour: bool) -> str:
    """Make text dim if it goes to a terminal."""
    return f"\x1b[2m{text}\x1b[0m" if wants_colour and stream.isatty() else text
