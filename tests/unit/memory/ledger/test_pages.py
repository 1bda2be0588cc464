import numpy as np
import pytest

from banyan.memory.ledger.errors import LedgerError
from banyan.memory.ledger.pages import TokenToKVPoolAllocator
from tests.unit.memory.ledger.helpers import ints


def test_every_page_but_the_padding_page_is_handed_out_once() -> None:
    pool = TokenToKVPoolAllocator(5, 16)
    first, second = pool.alloc(2), pool.alloc(3)
    assert first is not None and second is not None
    assert first.tolist() == [1, 2]
    assert sorted([*first.tolist(), *second.tolist()]) == [1, 2, 3, 4, 5]
    assert pool.num_free == 0


def test_alloc_is_never_partial() -> None:
    pool = TokenToKVPoolAllocator(3, 1)
    assert pool.alloc(4) is None
    assert pool.num_free == 3


def test_alloc_of_nothing_is_an_empty_array_even_when_full() -> None:
    pool = TokenToKVPoolAllocator(1, 1)
    pool.alloc(1)
    pages = pool.alloc(0)
    assert pages is not None and len(pages) == 0


def test_pages_come_back() -> None:
    pool = TokenToKVPoolAllocator(4, 1)
    pages = pool.alloc(4)
    assert pages is not None
    pool.free(pages[1:3])
    assert pool.num_free == 2
    again = pool.alloc(2)
    assert again is not None and sorted(again.tolist()) == sorted(pages[1:3].tolist())


@pytest.mark.parametrize("wrong", [(1, 4), (1, 1), (0,), (5,), (-1,)], ids=["free", "twice", "padding", "high", "low"])
def test_a_wrong_free_changes_nothing(wrong: tuple[int, ...]) -> None:
    pool = TokenToKVPoolAllocator(4, 1)
    pool.alloc(3)
    with pytest.raises(LedgerError):
        pool.free(ints(*wrong))
    assert pool.num_free == 1
    assert np.flatnonzero(pool.is_free()).tolist() == pool.free_list().tolist() == [4]


def test_rebuild_frees_all_but_the_owned() -> None:
    pool = TokenToKVPoolAllocator(4, 1)
    pool.alloc(4)
    pool.rebuild(np.array([False, True, False, False, True]))
    assert sorted(pool.free_list().tolist()) == [2, 3]
    pages = pool.alloc(2)
    assert pages is not None and pages.tolist() == [2, 3]


def test_an_empty_pool_and_a_negative_count_are_refused() -> None:
    with pytest.raises(LedgerError, match="0 pages"):
        TokenToKVPoolAllocator(0, 16)
    with pytest.raises(LedgerError, match="-1 pages"):
        TokenToKVPoolAllocator(1, 16).alloc(-1)
