"""Count: how a test says that it has run so many cases of a kind."""

from collections.abc import Callable

Count = Callable[[str, int], None]
