"""FlightRecord: what a scheduler was doing, in a mapped file that outlives a kill -9; Flight is what it tells.

It holds numbers only: a heartbeat, who sits in which slot, and which slots are in the steps in flight. Writing is a
few stores into mapped memory; the kernel keeps them when the process is gone. Layout, all little-endian:

    header   magic, num_slots, beat, beat_at, busy              64 bytes
    steps    16 x (number + 1 or 0 if free, rows, newcomers)    24 bytes each
    uids     int64 [num_slots + 1]
    epochs   int32 [num_slots + 1]
    members  int32 [16, 2, num_slots]                           slots of a step: all rows, then the newcomers
"""

import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]

MAX_STEPS: Final = 16
NOBODY: Final = -1  # uid of a slot that was never opened

_MAGIC: Final = 0x31_54_48_47_49_4C_46_42  # "BFLIGHT1"
_HEADER: Final = struct.Struct("<qqqdq24x")
_STEP: Final = struct.Struct("<qqq")
_UIDS_AT: Final = _HEADER.size + MAX_STEPS * _STEP.size
# Indices of the 8-byte words that are written alone; an aligned word is never torn.
_BEAT: Final = 2
_BEAT_AT: Final = 3
_BUSY: Final = 4
_STEPS: Final = _HEADER.size // 8


@dataclass(frozen=True, slots=True)
class Flight:
    """The last words of a process. `suspects` were in the steps in flight, `newcomers` for the first time."""

    beat: int = 0
    beat_at: float = 0.0  # CLOCK_MONOTONIC, shared by all processes of a host
    busy: bool = False
    suspects: tuple[int, ...] = ()  # uids
    epochs: tuple[int, ...] = ()  # of the suspects
    newcomers: tuple[int, ...] = ()  # uids, all of them suspects too


class FlightRecord:
    """The writer, one per scheduler process. A new record replaces the predecessor's file, it does not reuse it."""

    def __init__(self, path: Path, num_slots: int) -> None:
        self._num_slots = num_slots
        epochs_at, members_at, size = _offsets(num_slots)
        fresh = path.with_name(f"{path.name}.new")
        fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, size)  # a store into a hole on a full disk would be a SIGBUS
            self._map = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        self._view = memoryview(self._map)
        self._ints = self._view[:_UIDS_AT].cast("q")
        self._floats = self._view[:_UIDS_AT].cast("d")
        self._uids = self._view[_UIDS_AT:epochs_at].cast("q")
        self._epochs = self._view[epochs_at : epochs_at + 4 * (num_slots + 1)].cast("i")
        self._members = np.frombuffer(self._map, np.int32, offset=members_at).reshape(MAX_STEPS, 2, num_slots)
        np.frombuffer(self._uids, np.int64)[:] = NOBODY
        _HEADER.pack_into(self._map, 0, _MAGIC, num_slots, 0, 0.0, 0)
        fresh.replace(path)

    def open_slot(self, slot: int, uid: int, epoch: int) -> None:
        """Note who sits in a slot from now on."""
        self._uids[slot] = uid
        self._epochs[slot] = epoch

    def launched(self, step_number: int, slots: I32, newcomers: I32) -> None:
        """Note the slots of a step. Call this before the device sees the step: it may be the one that kills us."""
        entry = step_number % MAX_STEPS
        word = _STEPS + 3 * entry
        ints = self._ints
        ints[word] = 0  # free while it is written
        self._members[entry, 0, : len(slots)] = slots
        self._members[entry, 1, : len(newcomers)] = newcomers
        ints[word + 1] = len(slots)
        ints[word + 2] = len(newcomers)
        ints[word] = step_number + 1

    def committed(self, step_number: int) -> None:
        """Note that a step is done."""
        word = _STEPS + 3 * (step_number % MAX_STEPS)
        if self._ints[word] == step_number + 1:
            self._ints[word] = 0

    def dropped(self) -> None:
        """Note that no launched step will be committed any more: a step failed, and all work was taken back."""
        for word in range(_STEPS, _STEPS + 3 * MAX_STEPS, 3):
            self._ints[word] = 0

    def beat(self, now: float, busy: bool) -> None:
        """Note a sign of life, and whether the next one is due (busy) or may take its time (idle)."""
        self._ints[_BUSY] = busy
        self._floats[_BEAT_AT] = now
        self._ints[_BEAT] += 1

    def close(self) -> None:
        """Unmap the file; it stays on disk."""
        del self._members  # numpy holds the map by a buffer of its own
        for view in (self._ints, self._floats, self._uids, self._epochs, self._view):
            view.release()
        self._map.close()

    @staticmethod
    def read(path: Path) -> Flight:
        """Read a record, of a live process or a dead one. What is missing or torn reads as nothing in flight."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return Flight()
        try:
            # Reads, not a mapping: a file that is cut short under a mapping kills its reader.
            return _read(fd)
        finally:
            os.close(fd)


def _offsets(num_slots: int) -> tuple[int, int, int]:
    """Return where epochs and members begin, and the size of the file."""
    epochs_at = _UIDS_AT + 8 * (num_slots + 1)
    members_at = epochs_at + 8 * ((4 * (num_slots + 1) + 7) // 8)
    return epochs_at, members_at, members_at + MAX_STEPS * 2 * num_slots * 4


def _read(fd: int) -> Flight:
    head = os.pread(fd, _UIDS_AT, 0)
    if len(head) < _UIDS_AT:
        return Flight()
    magic, num_slots, beat, beat_at, busy = _HEADER.unpack_from(head)
    if magic != _MAGIC or num_slots < 1:
        return Flight()
    slots, newcomers = set[int](), set[int]()
    for entry in range(MAX_STEPS):
        rows = _members(fd, num_slots, entry, _STEP.unpack_from(head, _HEADER.size + entry * _STEP.size))
        slots.update(rows[0])
        newcomers.update(rows[1])
    seats = _seats(fd, num_slots, slots | newcomers)
    return Flight(
        beat=beat,
        beat_at=beat_at,
        busy=bool(busy),
        suspects=tuple(uid for uid, _ in seats.values()),
        epochs=tuple(epoch for _, epoch in seats.values()),
        newcomers=tuple(seats[slot][0] for slot in sorted(newcomers) if slot in seats),
    )


def _members(fd: int, num_slots: int, entry: int, step: tuple[int, int, int]) -> tuple[list[int], list[int]]:
    """Read the slots and the newcomers of a step; both are empty if it is free, or changes while it is read."""
    number, num_rows, num_newcomers = step
    if number <= 0 or not 0 <= num_rows <= num_slots or not 0 <= num_newcomers <= num_slots:
        return [], []
    members_at = _offsets(num_slots)[1] + entry * 2 * num_slots * 4
    rows = os.pread(fd, 4 * num_rows, members_at)
    newcomers = os.pread(fd, 4 * num_newcomers, members_at + 4 * num_slots)
    again = os.pread(fd, _STEP.size, _HEADER.size + entry * _STEP.size)
    if len(rows) < 4 * num_rows or len(newcomers) < 4 * num_newcomers or again != _STEP.pack(*step):
        return [], []
    return np.frombuffer(rows, np.int32).tolist(), np.frombuffer(newcomers, np.int32).tolist()


def _seats(fd: int, num_slots: int, slots: set[int]) -> dict[int, tuple[int, int]]:
    """Look up (uid, epoch) of slots, in the order of the slots; empty and impossible ones are left out."""
    if not slots:
        return {}
    count = num_slots + 1
    uids = np.frombuffer(os.pread(fd, 8 * count, _UIDS_AT), np.int64)
    epochs = np.frombuffer(os.pread(fd, 4 * count, _offsets(num_slots)[0]), np.int32)
    if len(uids) < count or len(epochs) < count:
        return {}
    taken = [slot for slot in sorted(slots) if 0 < slot <= num_slots and uids[slot] != NOBODY]
    return {slot: (int(uids[slot]), int(epochs[slot])) for slot in taken}
