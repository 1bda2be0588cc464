"""Watchdog: a process that makes no progress is reported with the stacks of all its threads."""

import contextlib
import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TextIO

_CHECKS_PER_TIMEOUT: Final = 4


@dataclass(slots=True)
class Progress:
    """Decides when silence is a stall; pure. A stall is told once and ends with the next beat."""

    timeout_s: float
    seen: int = -1
    since: float = 0.0
    told: bool = False

    def stalled(self, now: float, beats: int, busy: bool) -> bool:
        """Tell whether a stall begins to show at this check."""
        if beats != self.seen or not busy:
            self.seen, self.since, self.told = beats, now, False
            return False
        if self.told or now - self.since < self.timeout_s:
            return False
        self.told = True
        return True


class Watchdog:
    """Watches one process from a thread of its own; `report` is a real file, such as stderr or a log file.

    The thread needs the interpreter's lock to see that nothing moves. Against code that never lets go of the lock
    a timer of faulthandler, which needs none, is set anew at each check. SIGUSR2 asks for the stacks at any time.
    faulthandler has one timer and one handler per process, so a process has one Watchdog.
    """

    def __init__(self, timeout_s: float, report: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._report = report
        self._clock = clock
        self._progress = Progress(timeout_s)
        self._timeout_s = timeout_s
        self._interval_s = timeout_s / _CHECKS_PER_TIMEOUT
        self._beats = 0
        self._busy = False
        self._last_check = clock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch. Until the first beat the process counts as idle."""
        faulthandler.register(signal.SIGUSR2, file=self._report, all_threads=True)
        self._set_timer()
        self._thread.start()

    def beat(self) -> None:
        """Something was done, and the next beat is due within the timeout."""
        self._beats += 1
        self._busy = True

    def idle(self) -> None:
        """There is nothing to do: silence is no stall until the next beat, so beat on waking up, before the work."""
        self._busy = False

    def stop(self) -> None:
        """End the watch."""
        self._stop.set()
        self._thread.join()
        faulthandler.cancel_dump_traceback_later()
        faulthandler.unregister(signal.SIGUSR2)

    def check(self) -> None:
        """Look once; the thread calls this four times per timeout."""
        now = self._clock()
        # A check that comes this late was itself kept from running, and the timer has written the stacks.
        timer_fired = now - self._last_check >= self._timeout_s + self._interval_s
        self._last_check = now
        if self._progress.stalled(now, self._beats, self._busy) and not timer_fired:
            self._report.write(f"watchdog: process {os.getpid()} made no progress for {self._timeout_s} s; stacks:\n")
            self._report.flush()
            faulthandler.dump_traceback(self._report, all_threads=True)

    def _watch(self) -> None:
        while not self._stop.wait(self._interval_s):
            self._set_timer()
            with contextlib.suppress(OSError):  # a report that cannot be written must not end the watch
                self.check()

    def _set_timer(self) -> None:
        faulthandler.dump_traceback_later(self._timeout_s + self._interval_s, file=self._report)
