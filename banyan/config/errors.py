"""UserError and ConfigError, and the hint that goes with an unknown name."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """A mistake in what was asked for. The message is one sentence for the person who asked."""


class ConfigError(UserError):
    """A setting that cannot be used."""


def suggest(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean X?` for the known name nearest to the word, or nothing when none is near."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""
