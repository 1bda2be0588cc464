"""FlightObserver: a scheduler's flight record, kept as its loop runs."""

import logging

import numpy as np

from banyan.obs.flight import FlightRecord
from banyan.obs.watchdog import Watchdog
from banyan.plan import Step, StepResult
from banyan.sched.loop import Turn

logger = logging.getLogger(__name__)


class FlightObserver:
    """Keeps a scheduler's flight record. Every turn is a sign of life, and the next one is always due."""

    def __init__(self, flight: FlightRecord, watchdog: Watchdog) -> None:
        self._flight = flight
        self._watchdog = watchdog

    def turn(self, turn: Turn) -> None:
        """A turn begins: we live."""
        self._flight.beat(turn.now, busy=True)
        self._watchdog.beat()

    def launched(self, step: Step) -> None:
        """Write down who is in the step before the device sees it."""
        for admission in step.admissions:
            self._flight.open_slot(admission.slot, admission.uid, admission.epoch)
        newcomers = np.asarray([admission.slot for admission in step.admissions], np.int32)
        self._flight.launched(step.number, step.slots(), newcomers)

    def committed(self, step: Step, _result: StepResult, /) -> None:
        """The step did no harm."""
        self._flight.committed(step.number)

    def failed(self, step: Step, error: str) -> None:
        """All work in flight was taken back. Called while the error is handled, so the log has its traceback."""
        logger.exception("step %d failed: %s", step.number, error)
        self._flight.dropped()
