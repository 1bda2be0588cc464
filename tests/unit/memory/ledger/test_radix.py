import numpy as np
import pytest

from banyan.memory.ledger.errors import LedgerError
from banyan.memory.ledger.pages import TokenToKVPoolAllocator
from banyan.memory.ledger.radix import Namespace, RadixNode, RadixTree
from banyan.wire.base import I32
from tests.unit.memory.ledger.helpers import SPACE, ints, ramp

PAGE = 2


class Grove:
    """A tree of pages of two tokens, and the ways to use it in one line."""

    def __init__(self, num_pages: int = 32) -> None:
        self.pool = TokenToKVPoolAllocator(num_pages, PAGE)
        self.tree = RadixTree(self.pool, "lru")

    def add(self, tokens: I32, born: int = 1, namespace: Namespace = SPACE) -> RadixNode:
        """Insert what the tree lacks of some tokens."""
        data = tokens.tobytes()
        match = self.tree.match(self.tree.root(namespace), data, 0)
        known = match.end // self.tree.page_bytes + match.branch_pages
        node = self.tree.settle(match)
        pages = self.pool.alloc(len(tokens) // PAGE - known)
        assert pages is not None
        leaf = self.tree.insert(node, data[known * self.tree.page_bytes :], pages, born, 0)
        assert leaf is not None
        return leaf

    def found(self, tokens: I32, namespace: Namespace = SPACE) -> int:
        """Count the cached pages of some tokens."""
        root = self.tree.roots.get(namespace)
        if root is None:
            return 0
        match = self.tree.match(root, tokens.tobytes(), 0)
        return match.end // self.tree.page_bytes + match.branch_pages


def test_match_counts_whole_pages_only() -> None:
    grove = Grove()
    grove.add(ramp(8))
    assert grove.found(ramp(8)) == 4
    assert grove.found(ramp(20)) == 4
    assert grove.found(ramp(7)) == 3
    assert grove.found(ints(0, 1, 2, 9)) == 1
    assert grove.found(ints(9, 1)) == 0
    assert grove.found(ramp(1)) == 0


def test_insert_splits_where_prefixes_part() -> None:
    grove = Grove()
    grove.add(ramp(8))
    grove.add(ints(0, 1, 2, 3, 90, 91))
    root = grove.tree.roots[SPACE]
    (trunk,) = root.children.values()
    assert trunk.key.tolist() == [0, 1, 2, 3]
    assert sorted(child.key.tolist() for child in trunk.children.values()) == [[4, 5, 6, 7], [90, 91]]
    assert grove.tree.evictable == 5
    assert grove.found(ramp(8)) == 4


def test_insert_refuses_a_page_that_is_there() -> None:
    grove = Grove()
    grove.add(ramp(4))
    assert grove.tree.insert(grove.tree.roots[SPACE], ramp(6).tobytes(), ints(7, 8, 9), 1, 0) is None
    assert grove.tree.evictable == 2


def test_split_keeps_the_locks_of_those_below() -> None:
    grove = Grove()
    leaf = grove.add(ramp(8))
    grove.tree.lock(leaf)
    upper = grove.tree.split(leaf, 1)
    assert (upper.lock, leaf.lock) == (1, 1)
    assert upper.pages.tolist() + leaf.pages.tolist() == grove.tree.prefix_pages(leaf).tolist()
    assert (grove.tree.locked, grove.tree.evictable) == (4, 0)
    grove.tree.unlock(leaf)
    assert (upper.lock, leaf.lock, grove.tree.evictable) == (0, 0, 4)


@pytest.mark.parametrize("num_pages", [0, 4])
def test_split_at_an_end_is_refused(num_pages: int) -> None:
    grove = Grove()
    with pytest.raises(LedgerError):
        grove.tree.split(grove.add(ramp(8)), num_pages)


def test_a_locked_prefix_is_not_evicted() -> None:
    grove = Grove()
    trunk = grove.add(ramp(4))
    grove.add(ramp(8))
    grove.tree.lock(trunk)
    assert (grove.tree.evictable, grove.tree.locked) == (2, 2)
    assert grove.tree.evict(100) == 2
    assert grove.found(ramp(8)) == 2


def test_locking_on_from_above_counts_each_node_once() -> None:
    grove = Grove()
    trunk = grove.add(ramp(4))
    grove.tree.lock(trunk)
    leaf = grove.add(ramp(8))
    grove.tree.lock(leaf, trunk)
    assert (trunk.lock, leaf.lock) == (1, 1)
    grove.tree.unlock(leaf)
    assert (trunk.lock, leaf.lock, grove.tree.locked) == (0, 0, 0)


def test_evict_shortens_the_last_leaf_only_as_far_as_needed() -> None:
    grove = Grove()
    grove.add(ramp(8))
    grove.add(ramp(8, start=50))
    assert grove.tree.evict(5) == 5
    assert grove.found(ramp(8)) == 0
    assert grove.found(ramp(8, start=50)) == 3
    assert grove.pool.num_free == 32 - 3
    grove.add(ints(50, 51, 52, 53, 54, 55, 1, 2))
    assert grove.found(ints(50, 51, 52, 53, 54, 55, 1, 2)) == 4


def test_evicting_the_last_leaf_below_it_exposes_a_trunk() -> None:
    grove = Grove()
    grove.add(ramp(4))
    grove.add(ramp(8))
    assert grove.tree.evict(3) == 3
    assert grove.found(ramp(8)) == 1
    assert grove.tree.evict(9) == 1
    assert grove.tree.evict(9) == 0


def test_namespaces_share_nothing_and_empty_roots_go() -> None:
    grove = Grove()
    other = Namespace("salt", "", 0)
    grove.add(ramp(4))
    grove.add(ramp(4), namespace=other)
    assert set(grove.tree.roots) == {SPACE, other}
    assert grove.found(ramp(4), Namespace("", "lora", 0)) == 0
    grove.tree.evict(2)
    assert set(grove.tree.roots) == {other}
    grove.tree.flush()
    assert grove.tree.roots == {}


def test_a_locked_root_stays_until_it_is_unlocked() -> None:
    grove = Grove()
    root = grove.tree.root(SPACE)
    grove.tree.lock(root)
    grove.add(ramp(4))
    grove.tree.flush()
    assert grove.tree.roots == {SPACE: root}
    grove.tree.unlock(root)
    assert grove.tree.roots == {}


def test_invalidate_drops_the_younger_and_keeps_the_older() -> None:
    grove = Grove()
    grove.add(ramp(4), born=3)
    grove.add(ramp(8), born=5)
    grove.add(ramp(12), born=6)
    assert grove.tree.invalidate(5) == 4
    assert grove.found(ramp(12)) == 2
    assert grove.tree.invalidate(5) == 0


def test_invalidate_takes_along_the_older_below_the_younger() -> None:
    grove = Grove()
    grove.add(ramp(4), born=7)
    grove.add(ramp(8), born=6)
    assert grove.tree.invalidate(7) == 4
    assert grove.tree.roots == {}


def test_invalidate_hides_what_is_locked_until_it_goes() -> None:
    grove = Grove()
    trunk = grove.add(ramp(4), born=3)
    middle = grove.add(ramp(8), born=7)
    grove.add(ramp(12), born=6)
    grove.tree.lock(middle)
    assert grove.tree.invalidate(7) == 2
    assert grove.found(ramp(12)) == 2
    assert grove.tree.insert(trunk, ramp(4, start=4).tobytes(), ints(31, 32), 8, 0) is None
    grove.tree.unlock(middle)
    assert grove.pool.num_free == 30
    assert grove.tree.evictable == 2
    assert grove.found(ramp(8)) == 2


def test_flush_spares_what_is_locked() -> None:
    grove = Grove()
    trunk = grove.add(ramp(4))
    grove.add(ramp(8))
    grove.add(ramp(8, start=50))
    grove.tree.lock(trunk)
    assert grove.tree.flush() == 6
    assert grove.found(ramp(8)) == 2


def test_touch_counts_a_use_of_the_whole_prefix() -> None:
    grove = Grove()
    trunk = grove.add(ramp(4))
    leaf = grove.add(ramp(8))
    before = leaf.tick
    grove.tree.touch(leaf, 5)
    assert leaf.tick == trunk.tick > before
    assert (leaf.hits, trunk.hits, leaf.priority, trunk.priority) == (1, 1, 5, 5)
    grove.tree.touch(leaf, 2)
    assert leaf.priority == 5


def test_a_match_inside_a_node_compares_up_to_the_shorter_end() -> None:
    grove = Grove(2048)
    tokens = np.arange(4096, dtype=np.int32)
    grove.add(tokens)
    for parting in (2, 3, 1000, 4094, 4095):
        other = tokens.copy()
        other[parting] = -1
        assert grove.found(other) == parting // PAGE
        assert grove.found(tokens[:parting]) == parting // PAGE


def test_a_node_is_not_dropped_twice() -> None:
    grove = Grove()
    leaf = grove.add(ramp(4))
    grove.tree.evict(2)
    with pytest.raises(LedgerError):
        grove.tree.split(leaf, 1)
