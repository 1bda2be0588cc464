"""FakeKV: pages that hold the oracle's states instead of tensors, and notice every wrong read.

Each offset of a page remembers the position and the state that was written there, and each page the state before its
first position. So the pages of a sequence form a chain, and a foreign, stale or misplaced page anywhere breaks it.
"""

import numpy as np

from banyan.wire.base import I32, I64
from banyan.worker.oracle import U64

_EMPTY = -1

_RECORD = np.dtype([("position", "<i4"), ("state", "<u8"), ("head", "<u8")])


class DeviceFault(RuntimeError):
    """The device was asked for something that a correct scheduler never asks for."""


class FakeKV:
    """KV memory of `num_pages` pages (page 0 is padding), and the device's own page table."""

    def __init__(self, num_pages: int, page_size: int, num_slots: int, max_pages_per_slot: int) -> None:
        self.num_pages = num_pages
        self.page_size = page_size
        self._table: I32 = np.zeros((num_slots + 1, max_pages_per_slot), np.int32)
        size = (num_pages + 1) * page_size
        self._positions: I32 = np.full(size, _EMPTY, np.int32)  # held at each offset
        self._states: U64 = np.zeros(size, np.uint64)  # after that position
        self._born: I64 = np.zeros(size, np.int64)  # number of the step that wrote it
        self._heads: U64 = np.zeros(num_pages + 1, np.uint64)  # [page] state before its first position

    def map(self, slots: I32, indices: I32, pages: I32) -> None:
        """Change page-table entries."""
        if not len(pages):
            return
        if pages.min() < 1 or pages.max() > self.num_pages or slots.min() < 1 or slots.max() >= len(self._table):
            raise DeviceFault(f"no such page-table entries: slots {slots.tolist()}, pages {pages.tolist()}")
        self._table[slots, indices] = pages

    def unmap(self, slots: I32) -> None:
        """Forget the pages of slots that were given back."""
        self._table[slots] = 0

    def write(self, slot: int, start: int, before: int, states: U64, step: int) -> None:
        """Write consecutive positions of one slot; `before` is the state ahead of the first."""
        slots = np.full(len(states), slot, np.int32)
        positions = np.arange(start, start + len(states), dtype=np.int32)
        previous = np.concatenate([np.array([before], np.uint64), states[:-1]])
        self.write_each(slots, positions, previous, states, step)

    def write_each(self, slots: I32, positions: I32, before: U64, states: U64, step: int) -> None:
        """Write one position per row."""
        where = self._where(slots, positions)
        self._positions[where] = positions
        self._states[where] = states
        self._born[where] = step
        first = positions % self.page_size == 0
        self._heads[where[first] // self.page_size] = before[first]

    def check(self, slots: I32, lengths: I32, states: U64, origins: U64) -> None:
        """Read all positions below `lengths` through the table: each slot must find its own, whole chain of pages.

        `states` are those after the last position, `origins` those before the first."""
        last = self._where(slots, lengths - 1)
        good = (self._positions[last] == lengths - 1) & (self._states[last] == states)
        counts = (lengths + (self.page_size - 1)) // self.page_size
        width = int(counts.max())
        pages = self._table[slots, :width]
        heads = self._heads[pages]
        tails = self._states.reshape(-1, self.page_size)[pages[:, :-1], self.page_size - 1]
        linked = (heads[:, 1:] == tails) | (np.arange(1, width) >= counts[:, None])
        good &= linked.all(axis=1) & (heads[:, 0] == origins)
        if not good.all():
            row = int(np.argmin(good))
            raise DeviceFault(self._explain(int(slots[row]), int(lengths[row]), int(origins[row])))

    def check_prefix(self, slot: int, origin: int, states: U64) -> None:
        """Read the first positions of a slot through the table and compare each with what the tokens give."""
        slots = np.full(len(states), slot, np.int32)
        positions = np.arange(len(states), dtype=np.int32)
        where = self._where(slots, positions)
        wrong = (self._positions[where] != positions) | (self._states[where] != states)
        if wrong.any():
            position = int(np.argmax(wrong))
            page, held = int(where[position]) // self.page_size, int(self._positions[where[position]])
            raise DeviceFault(
                f"slot {slot}: page {page} should hold position {position} of its sequence;"
                f" it holds {'nothing' if held == _EMPTY else f'position {held} of some sequence'}"
            )
        one = slice(len(states) - 1, len(states))
        self.check(slots[one], positions[one] + np.int32(1), states[one], np.array([origin], np.uint64))

    def poison(self, step: int) -> None:
        """Wipe what this step and later ones wrote, and the table: those steps did not happen."""
        self._positions[self._born >= step] = _EMPTY
        self._table[:] = 0

    def export(self, pages: I32) -> bytes:
        """Pack whole pages, to be sent to another device."""
        where = self._offsets(pages)
        records = np.zeros(len(where), _RECORD)
        records["position"] = self._positions[where]
        records["state"] = self._states[where]
        records["head"] = np.repeat(self._heads[pages], self.page_size)
        return records.tobytes()

    def load(self, pages: I32, data: bytes) -> None:
        """Unpack whole pages that another device exported."""
        where, records = self._offsets(pages), np.frombuffer(data, _RECORD)
        if len(records) != len(where):
            raise DeviceFault(f"{len(records)} offsets were sent for {len(where)}")
        self._positions[where] = records["position"]
        self._states[where] = records["state"]
        self._born[where] = 0
        self._heads[pages] = records["head"][:: self.page_size]

    def _offsets(self, pages: I32) -> I32:
        first = np.repeat(pages * np.int32(self.page_size), self.page_size)
        offsets: I32 = first + np.tile(np.arange(self.page_size, dtype=np.int32), len(pages))
        return offsets

    def _where(self, slots: I32, positions: I32) -> I32:
        """Find the flat offset of one position per row."""
        indices, offsets = np.divmod(positions, np.int32(self.page_size))
        if indices.max() >= self._table.shape[1]:
            raise DeviceFault(f"position {positions.max()} is beyond the page table")
        pages = self._table[slots, indices]
        if not pages.all():
            row = int(np.argmin(pages != 0))
            raise DeviceFault(f"slot {slots[row]} has no page for position {positions[row]}")
        where: I32 = pages * np.int32(self.page_size) + offsets
        return where

    def _explain(self, slot: int, length: int, origin: int) -> str:
        """Say which page broke the chain."""
        expected = origin
        for index in range(-(-length // self.page_size)):
            page = int(self._table[slot, index])
            if page == 0 or int(self._heads[page]) != expected:
                return f"slot {slot}: page {page} (index {index}) belongs to another sequence or is stale"
            expected = int(self._states[(page + 1) * self.page_size - 1])
        return f"slot {slot}: position {length - 1} was overwritten or never written"
