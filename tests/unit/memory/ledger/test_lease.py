import numpy as np
import pytest

from banyan.memory.ledger.errors import LedgerError
from banyan.memory.ledger.lease import Leases
from banyan.memory.ledger.pages import TokenToKVPoolAllocator
from tests.unit.memory.ledger.helpers import ints


class Desk:
    """Leases over a small pool that evicts nothing."""

    def __init__(self, num_pages: int = 12, num_slots: int = 4, width: int = 5) -> None:
        self.pool = TokenToKVPoolAllocator(num_pages, 4)
        self.leases = Leases(self.pool, num_slots, width)
        self.asked: list[int] = []

    def open(self, *slots: int) -> None:
        """Open slots without a prefix."""
        for slot in slots:
            self.leases.open(slot, None, ints(), 0)

    def reserve(self, slots: tuple[int, ...], lengths: tuple[int, ...]) -> bool:
        """Reserve, and note what room was asked for."""
        return self.leases.reserve(ints(*slots), ints(*lengths), self._make_room)

    def _make_room(self, num_pages: int) -> bool:
        self.asked.append(num_pages)
        return num_pages <= self.pool.num_free


def test_each_slot_gets_the_pages_it_lacks() -> None:
    desk = Desk()
    desk.open(1, 2, 3)
    assert desk.reserve((1, 2, 3), (4, 9, 0))
    assert desk.leases.held[1:4].tolist() == [1, 3, 0]
    assert desk.reserve((3, 1, 2), (17, 4, 12))
    assert desk.leases.held[1:4].tolist() == [1, 3, 5]
    assert desk.asked == [4, 5]
    rows = [desk.leases.table[slot, : desk.leases.held[slot]] for slot in (1, 2, 3)]
    assert sorted(np.concatenate(rows).tolist()) == list(range(1, 10))


def test_a_slot_with_room_asks_for_nothing() -> None:
    desk = Desk()
    desk.open(1)
    desk.reserve((1,), (3,))
    assert desk.reserve((1,), (4,))
    assert desk.asked == [1]


def test_reserve_is_all_or_nothing() -> None:
    desk = Desk(num_pages=3)
    desk.open(1, 2)
    assert not desk.reserve((1, 2), (8, 8))
    assert desk.pool.num_free == 3
    assert not desk.leases.held.any()
    assert len(desk.leases.changes()[0]) == 0


def test_a_slot_that_is_closed_or_too_long_is_refused() -> None:
    desk = Desk()
    desk.open(1)
    with pytest.raises(LedgerError, match="slot 2 is not open"):
        desk.reserve((1, 2), (4, 4))
    with pytest.raises(LedgerError, match="slot 1 needs 6 pages"):
        desk.reserve((1,), (21,))
    assert desk.pool.num_free == 12


def test_changes_tell_every_entry_written_and_are_drained() -> None:
    desk = Desk()
    desk.leases.open(2, None, ints(9, 10), 0)
    desk.open(1)
    desk.reserve((1, 2), (8, 12))
    copy = np.zeros_like(desk.leases.table)
    slots, indices, pages = desk.leases.changes()
    copy[slots, indices] = pages
    assert copy.tolist() == desk.leases.table.tolist()
    assert slots.dtype == indices.dtype == pages.dtype == np.int32
    assert len(slots) == 5
    assert len(desk.leases.changes()[0]) == 0


def test_changes_of_a_slot_used_twice_are_those_of_the_last_use() -> None:
    desk = Desk()
    desk.leases.open(1, None, ints(5, 6, 7), 0)
    desk.leases.clear(1)
    desk.leases.open(1, None, ints(8, 9), 0)
    slots, indices, pages = desk.leases.changes()
    assert set(zip(slots.tolist(), indices.tolist(), pages.tolist(), strict=True)) == {(1, 0, 8), (1, 1, 9)}


def test_clear_leaves_nothing_behind() -> None:
    desk = Desk()
    desk.leases.open(1, None, ints(5, 6), 3)
    desk.leases.doubtful.add(1)
    desk.leases.clear(1)
    assert not desk.leases.table.any()
    assert not desk.leases.held.any() and not desk.leases.shared.any() and not desk.leases.opened.any()
    assert desk.leases.doubtful == set()
    assert len(desk.leases.changes()[0]) == 0


@pytest.mark.parametrize("slot", [0, -1, 5])
def test_a_slot_out_of_range_is_refused(slot: int) -> None:
    with pytest.raises(LedgerError, match=f"slot {slot}"):
        Desk().leases.require(slot, opened=False)


def test_at_least_one_slot_of_one_page_is_needed() -> None:
    with pytest.raises(LedgerError):
        Desk(num_slots=0)
    with pytest.raises(LedgerError):
        Desk(width=0)
