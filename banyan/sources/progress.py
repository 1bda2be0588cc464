"""Progress: how far a download is, told on a terminal by a bar and elsewhere by a few lines."""

from collections.abc import Callable
from typing import Final, TextIO, TypeAlias

# What is being fetched, how many bytes are here, and how many there will be (0: unknown).
Progress: TypeAlias = Callable[[str, int, int], None]

_WIDTH: Final = 30
_LINE_STEP: Final = 25  # percent between two lines where there is no terminal


def silent(label: str, done: int, total: int) -> None:
    """Tell nobody."""


class ProgressBar:
    """Writes to a stream, once per change that can be seen."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._redraws = stream.isatty()
        self._shown = ("", -1)

    def __call__(self, label: str, done: int, total: int) -> None:
        """Show how far it is."""
        percent = min(100 * done // total, 100) if total else 0
        step = percent if self._redraws else percent - percent % _LINE_STEP
        if (label, step) == self._shown:
            return
        self._shown = (label, step)
        size = f"{done / 1e6:.0f} / {total / 1e6:.0f} MB" if total else f"{done / 1e6:.0f} MB"
        if not self._redraws:
            self._stream.write(f"{label}: {size}\n")
        else:
            bar = "#" * (_WIDTH * percent // 100)
            end = "\n" if total and done >= total else ""
            self._stream.write(f"\r{label} [{bar:<{_WIDTH}}] {percent:3d} %  {size} \x1b[K{end}")
        self._stream.flush()
