from collections.abc import Callable

import pytest

from banyan.memory.ledger.cache import ChunkCache, RadixCache
from banyan.memory.ledger.node import Namespace, RadixNode
from tests.unit.memory.ledger.helpers import SPACE, grow, ints, ramp, serve

TOKENS = ramp(8)


def busy() -> RadixCache:
    """A cache with a trunk held by slots 1 and 2, a free leaf, a pin, private pages and a void node."""
    cache = RadixCache(24, 2, 4, 8)
    serve(cache, 1, TOKENS)
    serve(cache, 1, ints(0, 1, 2, 3, 50, 51))
    cache.open(1, SPACE, TOKENS, 4)
    grow(cache, 1, 7)
    cache.open(2, SPACE, TOKENS, 8)
    grow(cache, 2, 12)
    cache.pin(SPACE, TOKENS)
    assert cache.check() == []
    return cache


def trunk(cache: RadixCache) -> RadixNode:
    """The node that both slots hold."""
    (node,) = cache.tree.roots[SPACE].children.values()
    return node


def leaf(cache: RadixCache) -> RadixNode:
    """The leaf that nobody holds."""
    return next(node for node in trunk(cache).children.values() if node.lock == 0)


def _leak(cache: RadixCache) -> None:
    cache.pages.alloc(2)


def _own_twice(cache: RadixCache) -> None:
    cache.table[1, 3] = cache.table[2, 5]


def _own_the_trees(cache: RadixCache) -> None:
    cache.table[1, 3] = leaf(cache).pages[0]


def _free_a_held_page(cache: RadixCache) -> None:
    cache.pages.free(cache.table[2, 4:5])


def _lock_once_more(cache: RadixCache) -> None:
    leaf(cache).lock += 1


def _lose_a_lock(cache: RadixCache) -> None:
    trunk(cache).lock -= 1


def _miscount(cache: RadixCache) -> None:
    cache.tree.evictable += 1


def _miscount_locked(cache: RadixCache) -> None:
    cache.tree.locked -= 1


def _miscount_leaves(cache: RadixCache) -> None:
    cache.tree.frontier.num_leaves += 1


def _forget_a_leaf(cache: RadixCache) -> None:
    cache.tree.frontier.leave(leaf(cache))


def _queue_a_locked_node(cache: RadixCache) -> None:
    cache.tree.frontier.enter(trunk(cache))


def _cut_off_a_held_node(cache: RadixCache) -> None:
    children = trunk(cache).children
    for first, child in list(children.items()):
        if child.lock:
            del children[first]


def _swap_a_shared_page(cache: RadixCache) -> None:
    cache.table[1, 0] = cache.table[1, 1]


def _overcount_a_row(cache: RadixCache) -> None:
    cache.held[1] = 99


def _name_a_foreign_page(cache: RadixCache) -> None:
    cache.table[1, 3] = 25


def _name_a_foreign_page_in_the_tree(cache: RadixCache) -> None:
    leaf(cache).pages = ints(0)


def _shorten_a_node(cache: RadixCache) -> None:
    leaf(cache).run = leaf(cache).run[:-4]


def _rename_a_child(cache: RadixCache) -> None:
    trunk(cache).children[b"wrong"] = trunk(cache).children.pop(leaf(cache).run[:8])


def _disown_a_child(cache: RadixCache) -> None:
    leaf(cache).parent = cache.tree.roots[SPACE]


def _leave_an_empty_root(cache: RadixCache) -> None:
    cache.tree.root(Namespace("empty", "", 0))


def _misplace_a_root(cache: RadixCache) -> None:
    cache.tree.roots[Namespace("wrong", "", 0)] = cache.tree.roots.pop(SPACE)


def _void_an_unlocked_node(cache: RadixCache) -> None:
    leaf(cache).stale = True


def _leave_pages_in_a_closed_slot(cache: RadixCache) -> None:
    cache.held[4] = 1


def _lose_a_pinned_node(cache: RadixCache) -> None:
    cache.pins[1] = RadixNode(None, b"", ints(), 999)


FAULTS: dict[str, tuple[Callable[[RadixCache], None], str]] = {
    "leak": (_leak, "2 pages have no owner"),
    "own twice": (_own_twice, "owners: slot 1, slot 2"),
    "own the tree's": (_own_the_trees, "has 2 owners: node"),
    "free a held page": (_free_a_held_page, "owners: the free list, slot 2"),
    "lock once more": (_lock_once_more, "has 1 locks, but 0 leases and pins hold it"),
    "lose a lock": (_lose_a_lock, "has 2 locks, but 3 leases and pins hold it"),
    "miscount": (_miscount, "counts 2 evictable pages, but has 1"),
    "miscount locked": (_miscount_locked, "counts 3 locked pages, but has 4"),
    "miscount leaves": (_miscount_leaves, "counts 2 leaves, but has 1"),
    "forget a leaf": (_forget_a_leaf, "can never be evicted"),
    "queue a locked node": (_queue_a_locked_node, "must not be evicted"),
    "cut off a held node": (_cut_off_a_held_node, "which is not in the tree"),
    "swap a shared page": (_swap_a_shared_page, "that are not the 2 of its prefix"),
    "overcount a row": (_overcount_a_row, "slot 1 holds 99 pages"),
    "name a foreign page": (_name_a_foreign_page, "slot 1 has a page outside 1..24"),
    "name a foreign page in the tree": (_name_a_foreign_page_in_the_tree, "has a page outside 1..24"),
    "shorten a node": (_shorten_a_node, "has 1 pages for 4 bytes"),
    "rename a child": (_rename_a_child, "is not what its parent"),
    "disown a child": (_disown_a_child, "is not what its parent"),
    "leave an empty root": (_leave_an_empty_root, "is empty, but still there"),
    "misplace a root": (_misplace_a_root, "is not a root or of another namespace"),
    "void an unlocked node": (_void_an_unlocked_node, "is void and unlocked"),
    "leave pages in a closed slot": (_leave_pages_in_a_closed_slot, "slot 4 is closed, but holds 1 pages"),
    "lose a pinned node": (_lose_a_pinned_node, "pin 1 holds node 999"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_and_named(name: str) -> None:
    plant, words = FAULTS[name]
    cache = busy()
    plant(cache)
    assert any(words in finding for finding in cache.check()), cache.check()


def test_a_free_list_at_odds_with_its_marks_is_found() -> None:
    cache = ChunkCache(8, 2, 2, 4)
    cache.pages._stack[0] = cache.pages._stack[1]
    assert any("the free list has 8 pages" in finding for finding in cache.check())


def test_many_faults_of_one_kind_are_summed_up() -> None:
    cache = ChunkCache(40, 1, 2, 40)
    for slot in (1, 2):
        cache.open(slot, SPACE, ints(), 0)
        grow(cache, slot, 20)
    cache.table[1, :20] = cache.table[2, :20]
    findings = cache.check()
    assert any("20 pages have no owner" in finding and finding.endswith("...") for finding in findings)
    assert any("12 more pages have several owners" in finding for finding in findings)
