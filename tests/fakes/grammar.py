"""Toy grammars over the byte vocabulary, each a pure function of the tokens accepted so far."""

import numpy as np

from banyan.plan import U32, Grammar
from banyan.wire.request import GrammarSpec
from banyan.worker.oracle import EOS

DIGITS = range(0x30, 0x3A)


class Parity:
    """Output i has the parity of i; the end is always allowed."""

    def __init__(self) -> None:
        self._count = 0

    def accept(self, token: int) -> None:
        """Count it."""
        if token != EOS and token % 2 != self._count % 2:
            raise ValueError(f"token {token} at {self._count} breaks the grammar")
        self._count += 1

    def fill(self, mask: U32) -> None:
        """Allow every other byte."""
        mask[:8] = 0x55555555 << self._count % 2
        _allow(mask, EOS)


class Digits:
    """A number of digits, then the end."""

    def __init__(self, count: int) -> None:
        self._left = count

    def accept(self, token: int) -> None:
        """Count it."""
        if token != EOS and (token not in DIGITS or not self._left):
            raise ValueError(f"token {token} with {self._left} digits to come breaks the grammar")
        self._left = max(0, self._left - 1)

    def fill(self, mask: U32) -> None:
        """Allow digits while some are missing, then the end."""
        for token in DIGITS if self._left else (EOS,):
            _allow(mask, token)


def make_grammar(spec: GrammarSpec) -> Grammar:
    """Build the state of a new request."""
    if spec.source == "parity":
        return Parity()
    if spec.source.startswith("digits:"):
        return Digits(int(spec.source.removeprefix("digits:")))
    raise ValueError(f"no such toy grammar: {spec.source!r}")


def _allow(mask: U32, token: int) -> None:
    mask[token // 32] |= np.uint32(1 << token % 32)
