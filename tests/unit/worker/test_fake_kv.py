"""FakeKV notices every read of a page that does not hold what the sequence wrote."""

import numpy as np
import pytest

from banyan.wire.base import I32
from banyan.worker.fake_kv import DeviceFault, FakeKV
from banyan.worker.oracle import U64, Oracle

PAGE = 4


def column(*values: int) -> I32:
    return np.array(values, np.int32)


def states_of(*tokens: int) -> U64:
    return Oracle().extend(0, column(*tokens))


def make() -> FakeKV:
    """Slot 1 holds ten positions in pages 1, 2, 3; slot 2 has pages 4, 5."""
    kv = FakeKV(num_pages=8, page_size=PAGE, num_slots=3, max_pages_per_slot=4)
    kv.map(column(1, 1, 1, 2, 2), column(0, 1, 2, 0, 1), column(1, 2, 3, 4, 5))
    kv.write(1, 0, 0, states_of(*range(10)), step=7)
    return kv


def check(kv: FakeKV, slot: int, length: int) -> None:
    kv.check(column(slot), column(length), states_of(*range(length))[-1:], np.zeros(1, np.uint64))


def test_own_pages_are_fine() -> None:
    kv = make()
    for length in range(1, 11):
        kv.check_prefix(1, 0, states_of(*range(length)))
    check(kv, 1, 10)


def test_writing_position_by_position_is_the_same() -> None:
    kv = make()
    states = states_of(*range(10))
    for position in range(7):
        before = states[position - 1 : position] if position else np.zeros(1, np.uint64)
        kv.write_each(column(2), column(position), before, states[position : position + 1], step=8)
    check(kv, 2, 7)


def test_a_page_shared_by_two_slots_is_fine() -> None:
    kv = make()
    kv.map(column(2), column(0), column(1))
    kv.check_prefix(2, 0, states_of(*range(4)))


def test_missing_page() -> None:
    with pytest.raises(DeviceFault, match="slot 3 has no page for position 1"):
        check(make(), 3, 2)


def test_position_beyond_the_table() -> None:
    with pytest.raises(DeviceFault, match="beyond the page table"):
        check(make(), 1, 4 * PAGE + 1)


def test_position_never_written() -> None:
    with pytest.raises(DeviceFault, match="overwritten or never written"):
        check(make(), 1, 11)


def test_wrong_page_in_the_middle_is_found_although_the_last_is_right() -> None:
    kv = make()
    kv.map(column(1), column(1), column(5))
    with pytest.raises(DeviceFault, match=r"page 5 \(index 1\)"):
        check(kv, 1, 10)


def test_first_page_of_another_sequence() -> None:
    kv = make()
    kv.write(2, 0, 0, states_of(50, 51, 52, 53, 54), step=8)
    kv.map(column(1), column(0), column(4))
    with pytest.raises(DeviceFault, match=r"page 2 \(index 1\)"):
        check(kv, 1, 10)
    with pytest.raises(DeviceFault, match="page 4 should hold position 0"):
        kv.check_prefix(1, 0, states_of(*range(10)))


def test_page_written_by_somebody_else_meanwhile() -> None:
    kv = make()
    kv.map(column(3), column(0), column(2))
    kv.write(3, 0, 0, states_of(90), step=8)
    with pytest.raises(DeviceFault, match=r"page 2 \(index 1\)"):
        check(kv, 1, 10)


def test_another_adapter_begins_elsewhere() -> None:
    kv = make()
    with pytest.raises(DeviceFault, match=r"page 1 \(index 0\)"):
        kv.check(column(1), column(10), states_of(*range(10))[-1:], np.ones(1, np.uint64))


def test_poison_wipes_what_failed_steps_wrote_and_keeps_the_rest() -> None:
    kv = make()
    kv.write(2, 0, 0, states_of(50, 51), step=8)
    kv.poison(8)
    kv.map(column(1, 1, 1, 2), column(0, 1, 2, 0), column(1, 2, 3, 4))
    check(kv, 1, 10)
    with pytest.raises(DeviceFault, match="page 4 should hold position 0 of its sequence; it holds nothing"):
        kv.check_prefix(2, 0, states_of(50, 51))


def test_released_slots_lose_their_pages() -> None:
    kv = make()
    kv.unmap(column(1))
    with pytest.raises(DeviceFault, match="slot 1 has no page"):
        check(kv, 1, 10)


def test_pages_travel_to_another_device() -> None:
    kv, other = make(), FakeKV(num_pages=8, page_size=PAGE, num_slots=3, max_pages_per_slot=4)
    other.load(column(6, 7, 8), kv.export(column(1, 2, 3)))
    other.map(column(2, 2, 2), column(0, 1, 2), column(6, 7, 8))
    check(other, 2, 10)
    with pytest.raises(DeviceFault, match="12 offsets were sent for 8"):
        other.load(column(6, 7), kv.export(column(1, 2, 3)))


@pytest.mark.parametrize(("slot", "page"), [(0, 1), (4, 1), (1, 0), (1, 9)])
def test_entries_outside_the_table(slot: int, page: int) -> None:
    with pytest.raises(DeviceFault, match="no such page-table entries"):
        make().map(column(slot), column(0), column(page))
