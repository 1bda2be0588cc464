"""FlightObserver: the record names who was in the step that ended a process."""

import io
from pathlib import Path

import numpy as np
import pytest

from banyan.launch.observers import FlightObserver
from banyan.obs.flight import FlightRecord
from banyan.obs.watchdog import Watchdog
from banyan.plan import Admission, Step, StepResult
from banyan.sched.loop import Turn


def step(number: int, decode: list[int], admitted: dict[int, int]) -> Step:
    extend = np.asarray(list(admitted), np.int32)
    return Step(
        number=number,
        extend_slots=extend,
        decode_slots=np.asarray(decode, np.int32),
        admissions=tuple(
            Admission(slot=slot, uid=uid, epoch=0, sampling=None, seed=0, prompt_len=1, history=extend)
            for slot, uid in admitted.items()
        ),
    )


def test_the_record_follows_the_loop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "record"
    observer = FlightObserver(FlightRecord(path, num_slots=4), Watchdog(1.0, io.StringIO()))
    observer.turn(Turn(12.5, []))
    flight = FlightRecord.read(path)
    assert (flight.beat_at, flight.busy, flight.suspects) == (12.5, True, ())
    first, second = step(0, [], {1: 100, 2: 200}), step(1, [1, 2], {3: 300})
    observer.launched(first)
    observer.launched(second)
    flight = FlightRecord.read(path)
    assert (set(flight.suspects), set(flight.newcomers)) == ({100, 200, 300}, {100, 200, 300})
    observer.committed(first, StepResult(tokens=np.zeros(2, np.int32)))
    flight = FlightRecord.read(path)
    assert (set(flight.suspects), set(flight.newcomers)) == ({100, 200, 300}, {300})
    try:
        raise ValueError("deep inside")
    except ValueError as error:
        observer.failed(second, str(error))
    assert FlightRecord.read(path).suspects == ()
    assert "step 1 failed: deep inside" in caplog.text
    assert "Traceback" in caplog.text
