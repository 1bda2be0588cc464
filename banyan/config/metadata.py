"""Metadata: typed reading of the key-value pairs in a GGUF file."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from banyan.config.errors import ConfigError

Numbers = npt.NDArray[Any]
Value = bool | int | float | str | list[str] | Numbers

_MISSING = "the file has no {key}: it is incomplete, or not of a model that banyan can run"


class Metadata:
    """What a file says of itself. A missing or ill-typed entry is refused with its name."""

    def __init__(self, entries: Mapping[str, Value]) -> None:
        self._entries = entries

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def word(self, key: str, default: str | None = None) -> str:
        """Read a string."""
        value = self._read(key, default)
        if not isinstance(value, str):
            raise ConfigError(f"{key} should be a string, not {_brief(value)}")
        return value

    def whole(self, key: str, default: int | None = None) -> int:
        """Read a whole number that is not negative."""
        value = self._read(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ConfigError(f"{key} should be a whole number, not {_brief(value)}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Read a finite number."""
        value = self._read(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
            raise ConfigError(f"{key} should be a number, not {_brief(value)}")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """Read true or false."""
        value = self._read(key, default)
        if not isinstance(value, bool):
            raise ConfigError(f"{key} should be true or false, not {_brief(value)}")
        return value

    def words(self, key: str) -> list[str]:
        """Read a list of strings; nothing where there is none."""
        value = self._entries.get(key, [])
        if not isinstance(value, list):
            raise ConfigError(f"{key} should be a list of strings, not {_brief(value)}")
        return value

    def numbers(self, key: str) -> Numbers:
        """Read a list of numbers; nothing where there is none."""
        value = self._entries.get(key, np.zeros(0, np.int64))
        if not isinstance(value, np.ndarray):
            raise ConfigError(f"{key} should be a list of numbers, not {_brief(value)}")
        return value

    def _read(self, key: str, default: Value | None) -> Value:
        value = self._entries.get(key, default)
        if value is None:
            raise ConfigError(_MISSING.format(key=key))
        return value


def _brief(value: Value) -> str:
    return f"a list of {len(value)}" if isinstance(value, list | np.ndarray) else f"{value!r:.80}"
