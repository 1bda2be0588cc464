from typing import Literal

import numpy as np
import pytest

from banyan.memory.ledger.cache import ChunkCache, Pin, PrefixCache, RadixCache, Usage, make_cache
from banyan.memory.ledger.errors import LedgerError
from banyan.memory.ledger.evict import EvictionPolicy
from banyan.memory.ledger.node import Namespace
from tests.unit.memory.ledger.helpers import SPACE, grow, ints, ramp, serve

PAGE = 4


def _radix(num_pages: int = 16, policy: EvictionPolicy = "lru") -> RadixCache:
    return RadixCache(num_pages, PAGE, 4, 8, policy)


def test_the_second_request_finds_what_the_first_left() -> None:
    cache = _radix()
    assert serve(cache, 1, ramp(10)) == 0
    assert cache.usage() == Usage(14, 2, 0, 0)
    assert cache.peek(SPACE, ramp(10)) == 8
    assert cache.open(2, SPACE, ramp(10), 9) == 8
    assert cache.usage() == Usage(14, 0, 2, 0)
    assert cache.table[2, :2].tolist() == [1, 2]
    assert (cache.held[2], cache.shared[2]) == (2, 2)
    assert cache.check() == []


@pytest.mark.parametrize(("limit", "cached"), [(-1, 0), (3, 0), (4, 4), (7, 4), (8, 8), (99, 8)])
def test_a_lease_takes_no_more_than_its_limit(limit: int, cached: int) -> None:
    cache = _radix()
    serve(cache, 1, ramp(8))
    assert cache.open(2, SPACE, ramp(9), limit) == cached
    assert cache.check() == []


def test_a_lease_takes_no_more_than_a_row() -> None:
    cache = RadixCache(16, PAGE, 2, 3)
    for count in (1, 2, 3):
        serve(cache, 1, ramp(PAGE * count))
    assert cache.open(1, SPACE, ramp(40), 40) == 3 * PAGE


def test_peek_changes_nothing() -> None:
    cache = _radix()
    serve(cache, 1, ramp(8))
    (node,) = cache.tree.roots[SPACE].children.values()
    before = (node.tick, node.hits, len(node.pages))
    assert cache.peek(SPACE, ints(0, 1, 2, 3, 9)) == 4
    assert cache.peek(Namespace("other", "", 0), ramp(8)) == 0
    assert (node.tick, node.hits, len(node.pages)) == before
    assert list(cache.tree.roots) == [SPACE]


def test_what_is_published_is_shared_at_once() -> None:
    cache = _radix()
    cache.open(1, SPACE, ramp(12), 11)
    grow(cache, 1, 12)
    cache.publish(1, ramp(12), 8, 1)
    assert cache.shared[1] == 2
    assert cache.open(2, SPACE, ramp(12), 11) == 8
    assert cache.table[2, :2].tolist() == cache.table[1, :2].tolist()
    cache.publish(1, ramp(12), 12, 2)
    assert cache.shared[1] == 3
    assert cache.usage() == Usage(13, 0, 3, 0)
    cache.close(1, ramp(12), 12, 2)
    assert cache.usage() == Usage(13, 1, 2, 0)
    assert cache.check() == []


def test_publishing_stops_for_good_where_the_tree_has_a_page() -> None:
    cache = _radix()
    for slot in (1, 2):
        cache.open(slot, SPACE, ramp(12), 11)
        grow(cache, slot, 12)
    cache.publish(1, ramp(12), 8, 1)
    own = cache.table[2, :3].tolist()
    cache.publish(2, ramp(12), 8, 1)
    cache.close(1, ramp(12), 0, 1)
    cache.flush()
    cache.publish(2, ramp(12), 12, 2)
    assert cache.shared[2] == 0
    assert cache.table[2, :3].tolist() == own
    assert cache.check() == []
    cache.close(2, ramp(12), 12, 2)
    assert cache.peek(SPACE, ramp(12)) == 12


def test_close_frees_duplicates_and_the_tail_and_keeps_what_is_new() -> None:
    cache = _radix()
    for slot in (1, 2):
        cache.open(slot, SPACE, ramp(14), 13)
        grow(cache, slot, 14)
    row = cache.table[2, :4].tolist()
    cache.close(1, ramp(8), 8, 1)
    cache.close(2, ramp(14), 14, 1)
    assert cache.usage() == Usage(13, 3, 0, 0)
    assert cache.peek(SPACE, ramp(14)) == 12
    cache.open(3, SPACE, ramp(14), 13)
    assert cache.table[3, 2] == row[2]
    assert cache.check() == []


def test_close_splits_a_node_where_tokens_part() -> None:
    cache = _radix()
    other = ints(0, 1, 2, 3, 90, 91, 92, 93)
    for slot in (1, 2):
        cache.open(slot, SPACE, ints(), 0)
        grow(cache, slot, 8)
    cache.close(1, ramp(8), 8, 1)
    cache.close(2, other, 8, 1)
    assert (cache.peek(SPACE, ramp(8)), cache.peek(SPACE, other)) == (8, 8)
    assert cache.usage().cached == 3
    assert cache.check() == []


def test_close_with_no_length_leaves_only_what_was_published() -> None:
    cache = _radix()
    cache.open(1, SPACE, ramp(12), 11)
    grow(cache, 1, 12)
    cache.publish(1, ramp(12), 4, 1)
    cache.close(1, ramp(12), 0, 2)
    assert cache.usage() == Usage(15, 1, 0, 0)
    assert cache.peek(SPACE, ramp(12)) == 4


def test_splitting_below_two_leases_keeps_both() -> None:
    cache = _radix()
    serve(cache, 1, ramp(16))
    cache.open(1, SPACE, ramp(16), 16)
    cache.open(2, SPACE, ramp(16), 8)
    cache.open(3, SPACE, ramp(16), 4)
    assert cache.check() == []
    assert cache.table[1, :2].tolist() == cache.table[2, :2].tolist()
    for slot in (1, 3, 2):
        cache.close(slot, ramp(16), 0, 1)
        assert cache.check() == []
    assert cache.usage().cached == 4


def test_reserve_evicts_the_unlocked_and_spares_the_locked() -> None:
    cache = _radix(num_pages=6)
    serve(cache, 1, ramp(8))
    serve(cache, 1, ramp(8, start=100))
    cache.open(2, SPACE, ramp(8), 8)
    assert cache.available() == 4
    cache.open(3, SPACE, ints(), 0)
    assert not grow(cache, 3, 5 * PAGE)
    assert cache.peek(SPACE, ramp(8, start=100)) == 8
    assert grow(cache, 3, 4 * PAGE)
    assert cache.available() == 0
    assert cache.peek(SPACE, ramp(8, start=100)) == 0
    assert cache.peek(SPACE, ramp(8)) == 8
    assert cache.check() == []


@pytest.mark.parametrize(("policy", "gone"), [("lru", 2), ("lfu", 1), ("fifo", 0), ("priority", 3)])
def test_the_policy_says_who_goes(policy: EvictionPolicy, gone: int) -> None:
    cache = _radix(num_pages=4, policy=policy)
    prompts = [ramp(PAGE, start=100 * index) for index in range(4)]
    for born, prompt in enumerate(prompts):
        serve(cache, 1, prompt, born)
    for index, priority in ((2, 5), (2, 5), (0, 5), (0, 5), (1, 5), (3, 0), (3, 0)):
        cache.open(1, SPACE, prompts[index], PAGE, priority)
        cache.close(1, prompts[index], 0, 9)
    cache.open(1, SPACE, ints(), 0)
    assert grow(cache, 1, 1)
    assert [cache.peek(SPACE, prompt) == 0 for prompt in prompts] == [index == gone for index in range(4)]


def test_a_pin_keeps_a_prefix_without_a_slot() -> None:
    cache = _radix()
    serve(cache, 1, ramp(12))
    pin = cache.pin(SPACE, ramp(8))
    assert pin.num_tokens == 8
    assert cache.flush() == 1
    assert cache.peek(SPACE, ramp(12)) == 8
    assert cache.check() == []
    cache.unpin(pin)
    assert cache.usage() == Usage(14, 2, 0, 0)
    with pytest.raises(LedgerError, match="is not held"):
        cache.unpin(pin)


def test_a_pin_of_nothing_leaves_nothing() -> None:
    cache = _radix()
    pin = cache.pin(SPACE, ramp(8))
    assert pin.num_tokens == 0
    assert cache.check() == []
    cache.unpin(pin)
    assert cache.tree.roots == {}


def test_invalidate_voids_what_a_failed_step_computed() -> None:
    cache = _radix()
    cache.open(1, SPACE, ramp(12), 11)
    grow(cache, 1, 12)
    cache.publish(1, ramp(12), 4, 5)
    cache.publish(1, ramp(12), 12, 6)
    pin = cache.pin(SPACE, ramp(12))
    cache.close(1, ramp(12), 0, 6)
    assert cache.invalidate(6) == 0
    assert cache.peek(SPACE, ramp(12)) == 4
    assert serve(cache, 2, ramp(12), born=7) == 4
    assert cache.check() == []
    cache.unpin(pin)
    assert cache.usage() == Usage(15, 1, 0, 0)


def test_a_lease_may_go_on_after_its_prefix_was_voided() -> None:
    cache = _radix()
    cache.open(1, SPACE, ramp(12), 11)
    grow(cache, 1, 12)
    cache.publish(1, ramp(12), 4, 5)
    cache.invalidate(5)
    cache.publish(1, ramp(12), 8, 6)
    assert cache.check() == []
    assert cache.peek(SPACE, ramp(12)) == 0
    cache.close(1, ramp(12), 12, 6)
    assert cache.usage().free == 16
    assert cache.check() == []


def test_tokens_beyond_the_pages_are_refused() -> None:
    cache = _radix()
    cache.open(1, SPACE, ramp(12), 11)
    grow(cache, 1, 4)
    for call in (cache.publish, cache.close):
        with pytest.raises(LedgerError, match="slot 1 has pages for 4 tokens"):
            call(1, ramp(12), 8, 1)
    with pytest.raises(LedgerError):
        cache.close(1, ramp(2), 4, 1)
    assert cache.check() == []


@pytest.mark.parametrize("kind", ["radix", "chunk"])
def test_a_slot_is_opened_and_closed_in_turn(kind: Literal["radix", "chunk"]) -> None:
    cache = make_cache(kind, 8, PAGE, 2, 4)
    with pytest.raises(LedgerError, match="not open"):
        cache.close(1, ramp(4), 0, 1)
    cache.open(1, SPACE, ramp(4), 4)
    with pytest.raises(LedgerError, match="open already"):
        cache.open(1, SPACE, ramp(4), 4)
    cache.close(1, ramp(4), 0, 1)
    assert cache.check() == []


def test_the_chunk_cache_shares_nothing() -> None:
    cache = make_cache("chunk", 8, PAGE, 2, 4)
    assert isinstance(cache, ChunkCache)
    assert serve(cache, 1, ramp(8)) == 0
    assert cache.usage() == Usage(8, 0, 0, 0)
    cache.open(1, SPACE, ramp(8), 8)
    grow(cache, 1, 8)
    cache.publish(1, ramp(8), 8, 1)
    assert (cache.held[1], cache.shared[1]) == (2, 0)
    assert cache.usage() == Usage(6, 0, 0, 2)
    assert cache.available() == 6
    assert cache.open(2, SPACE, ramp(8), 8) == cache.peek(SPACE, ramp(8)) == 0
    cache.unpin(cache.pin(SPACE, ramp(8)))
    assert cache.pin(SPACE, ramp(8)) == Pin(0, 0)
    assert cache.invalidate(0) == cache.flush() == 0
    assert cache.check() == []


def test_the_chunk_cache_evicts_nobody() -> None:
    cache = make_cache("chunk", 4, PAGE, 2, 4)
    for slot in (1, 2):
        cache.open(slot, SPACE, ints(), 0)
    assert grow(cache, 1, 2 * PAGE)
    assert not grow(cache, 2, 3 * PAGE)
    assert grow(cache, 2, 2 * PAGE)
    assert cache.available() == 0


def test_changes_rebuild_the_table() -> None:
    cache = _radix()
    serve(cache, 1, ramp(8))
    cache.changes()
    copy = np.zeros_like(cache.table)
    cache.open(1, SPACE, ramp(12), 11)
    grow(cache, 1, 12)
    slots, indices, pages = cache.changes()
    copy[slots, indices] = pages
    assert copy.tolist() == cache.table.tolist()


def test_both_caches_are_prefix_caches() -> None:
    caches: list[PrefixCache] = [_radix(), ChunkCache(8, PAGE, 2, 4)]
    assert [cache.available() for cache in caches] == [16, 8]
    assert isinstance(make_cache("radix", 8, PAGE, 2, 4, "fifo"), RadixCache)
