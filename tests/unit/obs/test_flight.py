"""Tests of banyan.obs.flight."""

import contextlib
import itertools
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from banyan.obs.flight import I32, MAX_STEPS, Flight, FlightRecord

NONE: I32 = np.zeros(0, np.int32)


def slots(*numbers: int) -> I32:
    return np.array(numbers, np.int32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "scheduler0.rec"


@pytest.fixture
def record(path: Path) -> Iterator[FlightRecord]:
    with contextlib.closing(FlightRecord(path, 8)) as record:
        for slot in range(1, 9):
            record.open_slot(slot, uid=100 + slot, epoch=slot % 3)
        yield record


def test_a_fresh_record_tells_nothing(path: Path, record: FlightRecord) -> None:
    assert FlightRecord.read(path) == Flight(beat=0, beat_at=0.0, busy=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_beats_are_counted_and_timed(path: Path, record: FlightRecord) -> None:
    record.beat(12.5, busy=True)
    assert FlightRecord.read(path) == Flight(beat=1, beat_at=12.5, busy=True)
    record.beat(13.25, busy=False)
    assert FlightRecord.read(path) == Flight(beat=2, beat_at=13.25, busy=False)


def test_suspects_are_those_in_flight(path: Path, record: FlightRecord) -> None:
    record.launched(40, slots(1, 2, 5), slots(5))
    record.launched(41, slots(2, 5, 7), slots(7))
    flight = FlightRecord.read(path)
    assert flight.suspects == (101, 102, 105, 107)
    assert flight.epochs == (1, 2, 2, 1)
    assert flight.newcomers == (105, 107)
    record.committed(40)
    flight = FlightRecord.read(path)
    assert flight.suspects == (102, 105, 107)
    assert flight.newcomers == (107,)
    record.committed(41)
    assert FlightRecord.read(path).suspects == ()


def test_a_slot_names_who_sits_in_it_now(path: Path, record: FlightRecord) -> None:
    record.open_slot(3, uid=2**62, epoch=9)
    record.launched(0, slots(3), slots(3))
    flight = FlightRecord.read(path)
    assert (flight.suspects, flight.epochs, flight.newcomers) == ((2**62,), (9,), (2**62,))


def test_dropped_forgets_every_step(path: Path, record: FlightRecord) -> None:
    for number in range(MAX_STEPS):
        record.launched(number, slots(1), NONE)
    record.dropped()
    assert FlightRecord.read(path).suspects == ()


def test_sixteen_steps_fit_and_an_older_one_makes_room(path: Path, record: FlightRecord) -> None:
    record.launched(7, slots(8), NONE)
    for number in range(8, 8 + MAX_STEPS - 1):
        record.launched(number, slots(1), NONE)
    assert FlightRecord.read(path).suspects == (101, 108)
    record.launched(7 + MAX_STEPS, slots(2), NONE)
    assert FlightRecord.read(path).suspects == (101, 102)
    record.committed(7)  # its entry belongs to another step now
    assert FlightRecord.read(path).suspects == (101, 102)


def test_all_rows_fit(path: Path, record: FlightRecord) -> None:
    everyone = np.arange(1, 9, dtype=np.int32)
    record.launched(3, everyone, everyone)
    flight = FlightRecord.read(path)
    assert flight.suspects == flight.newcomers == tuple(range(101, 109))


def test_a_successor_starts_from_nothing_and_leaves_the_old_file_to_who_reads_it(
    path: Path, record: FlightRecord
) -> None:
    record.launched(1, slots(1), NONE)
    with path.open("rb") as old, contextlib.closing(FlightRecord(path, 4)):
        assert FlightRecord.read(path) == Flight()
        assert len(old.read()) > path.stat().st_size


@pytest.mark.parametrize("num_slots", [1, 2, 7, 1024])
def test_any_number_of_slots(path: Path, num_slots: int) -> None:
    with contextlib.closing(FlightRecord(path, num_slots)) as record:
        record.open_slot(num_slots, 5, 6)
        record.launched(15, slots(num_slots), slots(num_slots))
        flight = FlightRecord.read(path)
    assert (flight.suspects, flight.epochs, flight.newcomers) == ((5,), (6,), (5,))


def test_what_is_no_record_tells_nothing(path: Path) -> None:
    assert FlightRecord.read(path) == Flight()
    for content in (b"", b"short", bytes(10_000), os.urandom(10_000)):
        path.write_bytes(content)
        assert FlightRecord.read(path) == Flight()


def test_a_torn_record_never_raises_and_names_no_strangers(path: Path, record: FlightRecord) -> None:
    record.launched(1, slots(1, 2, 3), slots(3))
    record.launched(2, slots(2, 3), NONE)
    whole = path.read_bytes()
    rng = np.random.default_rng(5)
    torn = path.with_name("torn")
    for _ in range(500):
        content = bytearray(whole)
        at = int(rng.integers(64, len(content)))  # anywhere after the header
        content[at : at + 8] = rng.bytes(min(8, len(content) - at))
        torn.write_bytes(content[: int(rng.integers(0, 2 * len(content)))])
        flight = FlightRecord.read(torn)
        assert len(flight.suspects) == len(flight.epochs) <= 8
        assert set(flight.newcomers) <= set(flight.suspects)


def test_a_step_whose_writing_was_cut_off_is_not_read(path: Path, record: FlightRecord) -> None:
    record.launched(1, slots(1, 2), NONE)
    with pytest.raises(ValueError, match="broadcast"):
        record.launched(1 + MAX_STEPS, np.ones((2, 2), np.int32), NONE)  # raises half-way, as a kill would come
    assert FlightRecord.read(path).suspects == ()


def test_a_live_record_is_read_whole_or_not_at_all(path: Path, record: FlightRecord) -> None:
    pairs = [slots(1, 2), slots(3, 4), slots(5, 6, 7)]
    stop = threading.Event()

    def write() -> None:
        for number in itertools.count():
            record.launched(number * MAX_STEPS, pairs[number % 3], NONE)  # always the same entry
            if stop.is_set():
                return

    writer = threading.Thread(target=write)
    writer.start()
    seen = {FlightRecord.read(path).suspects for _ in range(3000)}
    stop.set()
    writer.join()
    assert seen <= {(), (101, 102), (103, 104), (105, 106, 107)}
    assert len(seen) > 1


def test_a_slot_that_nobody_opened_is_no_suspect(path: Path) -> None:
    with contextlib.closing(FlightRecord(path, 4)) as record:
        record.open_slot(2, 0, 0)
        record.launched(1, slots(0, 1, 2), slots(1))
        flight = FlightRecord.read(path)
    assert (flight.suspects, flight.newcomers) == ((0,), ())


def test_the_record_outlives_a_kill(path: Path) -> None:
    code = (
        "import os, signal, sys; import numpy as np; from pathlib import Path\n"
        "from banyan.obs.flight import FlightRecord\n"
        "record = FlightRecord(Path(sys.argv[1]), 4)\n"
        "record.open_slot(2, 77, 1)\n"
        "record.beat(5.0, True)\n"
        "record.launched(9, np.array([2], np.int32), np.array([2], np.int32))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == -9
    assert FlightRecord.read(path) == Flight(
        beat=1, beat_at=5.0, busy=True, suspects=(77,), epochs=(1,), newcomers=(77,)
    )


def test_writing_is_cheap(path: Path) -> None:
    rows = np.arange(1, 1025, dtype=np.int32)
    best = float("inf")
    with contextlib.closing(FlightRecord(path, 1024)) as record:
        for _ in range(20):  # the best of several: the host is shared
            start = time.perf_counter()
            for number in range(100):
                record.launched(number, rows, rows)
                record.committed(number)
                record.beat(1.0, True)
            best = min(best, (time.perf_counter() - start) / 100)
    assert best < 10e-6
