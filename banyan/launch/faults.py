"""marked_faults: requests that crash, fail or hang the oracle model's step, for tests of recovery.

Off unless debug.oracle_faults is set when the process starts; no request can switch it on.
"""

import os
import signal
import time

import numpy as np

from banyan.plan import Step
from banyan.worker.fake import Faults

CRASH = b"\x01crash\x01"
RAISE = b"\x01raise\x01"
HANG = b"\x01hang\x01"


def marked_faults() -> Faults:
    """Plant a fault at the launch of every step that admits a marked request."""
    return Faults(forward=_fault)


def _fault(step: Step) -> str | None:
    for admission in step.admissions:
        text = admission.history.astype(np.uint8).tobytes()
        if CRASH in text:
            os.kill(os.getpid(), signal.SIGSEGV)
        if HANG in text:
            time.sleep(3600)
        if RAISE in text:
            return "a marked request asked for it"
    return None
