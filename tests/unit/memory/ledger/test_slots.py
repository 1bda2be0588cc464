import pytest

from banyan.memory.ledger.errors import LedgerError
from banyan.memory.ledger.slots import SlotAllocator


def test_slots_are_handed_out_once_and_come_back() -> None:
    slots = SlotAllocator(2)
    assert [slots.alloc(), slots.alloc(), slots.alloc()] == [1, 2, None]
    slots.free(1)
    assert slots.num_free == 1
    assert slots.alloc() == 1


@pytest.mark.parametrize("wrong", [0, 1, 3, -1])
def test_a_slot_that_is_not_taken_cannot_be_freed(wrong: int) -> None:
    slots = SlotAllocator(2)
    slots.alloc()
    slots.free(1)
    with pytest.raises(LedgerError, match=f"slot {wrong}"):
        slots.free(wrong)
    assert slots.num_free == 2


def test_at_least_one_slot_is_needed() -> None:
    with pytest.raises(LedgerError):
        SlotAllocator(0)
