"""Clock: how a device tells and spends time; real in a server, virtual in a simulation."""

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds since some fixed moment."""

    def now(self) -> float:
        """Tell the time."""

    def sleep_until(self, moment: float) -> None:
        """Return when `now()` has reached the moment; at once if it has passed."""


class RealClock:
    """The monotonic clock of the machine."""

    def now(self) -> float:
        """Tell the time."""
        return time.monotonic()

    def sleep_until(self, moment: float) -> None:
        """Sleep."""
        delay = moment - time.monotonic()
        if delay > 0:
            time.sleep(delay)


class VirtualClock:
    """A clock that moves only when somebody waits for it, so a simulated hour takes no time and repeats exactly."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        """Tell the virtual time."""
        return self._now

    def sleep_until(self, moment: float) -> None:
        """Jump forwards; never back."""
        self._now = max(self._now, moment)
