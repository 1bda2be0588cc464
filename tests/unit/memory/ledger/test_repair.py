import pytest

from banyan.memory.ledger.cache import ChunkCache, RadixCache
from tests.unit.memory.ledger.helpers import SPACE, grow, ints, ramp, serve
from tests.unit.memory.ledger.test_audit import FAULTS, TOKENS, busy, leaf

# What each fault costs: pages that come back, and slots that must be computed anew.
PRICES: dict[str, tuple[int, tuple[int, ...]]] = {
    "leak": (2, ()),
    "own twice": (4, (1, 2)),
    "own the tree's": (3, (1,)),
    "free a held page": (0, ()),
    "lock once more": (0, ()),
    "lose a lock": (0, ()),
    "miscount": (0, ()),
    "miscount locked": (0, ()),
    "miscount leaves": (0, ()),
    "forget a leaf": (0, ()),
    "queue a locked node": (0, ()),
    "cut off a held node": (4, (2,)),
    "swap a shared page": (2, (1,)),
    "overcount a row": (2, (1,)),
    "name a foreign page": (2, (1,)),
    "name a foreign page in the tree": (1, ()),
    "shorten a node": (1, ()),
    "rename a child": (1, ()),
    "disown a child": (0, ()),
    "leave an empty root": (0, ()),
    "misplace a root": (0, ()),
    "void an unlocked node": (1, ()),
    "leave pages in a closed slot": (0, ()),
    "lose a pinned node": (0, ()),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_repaired_at_its_price(name: str) -> None:
    cache = busy()
    FAULTS[name][0](cache)
    assert (cache.heal(), cache.suspects()) == PRICES[name]
    assert cache.check() == []
    for slot in (1, 2):
        cache.close(slot, TOKENS, 0 if slot in cache.suspects() else 7, 9)
        assert cache.check() == []
    assert cache.suspects() == ()
    for pin in list(cache.pins):
        node = cache.pins.pop(pin)
        if node is not None:
            cache.tree.unlock(node)
    cache.flush()
    assert cache.usage().free == 24


def test_a_sound_cache_is_left_as_it_is() -> None:
    cache = busy()
    before = (cache.usage(), cache.table.tolist(), cache.held.tolist(), cache.shared.tolist())
    assert cache.heal() == 0
    assert (cache.usage(), cache.table.tolist(), cache.held.tolist(), cache.shared.tolist()) == before
    assert cache.suspects() == ()
    assert cache.peek(SPACE, TOKENS) == 8


def test_a_suspect_publishes_nothing_more() -> None:
    cache = busy()
    FAULTS["own twice"][0](cache)
    cache.heal()
    other = ramp(6, start=200)
    assert grow(cache, 1, 6)
    cache.publish(1, other, 6, 9)
    cache.close(1, other, 6, 9)
    assert cache.peek(SPACE, other) == 0
    assert cache.check() == []


def test_a_loop_in_the_tree_is_cut() -> None:
    cache = busy()
    node = leaf(cache)
    node.children[cache.tree.roots[SPACE].run] = cache.tree.roots[SPACE]
    cache.heal()
    assert cache.check() == []


def test_a_node_with_two_parents_is_dropped() -> None:
    cache = busy()
    node = leaf(cache)
    cache.tree.roots[SPACE].children[node.run] = node
    cache.heal()
    assert cache.check() == []


def test_a_root_with_pages_is_dropped() -> None:
    cache = busy()
    cache.tree.roots[SPACE].pages = ints(3)
    cache.heal()
    assert cache.check() == []
    assert cache.suspects() == (1, 2)
    assert cache.usage().free == 24


def test_a_voided_prefix_stays_hidden() -> None:
    cache = RadixCache(8, 2, 2, 4)
    serve(cache, 1, ramp(4), born=5)
    pin = cache.pin(SPACE, ramp(4))
    cache.invalidate(5)
    cache.pages.alloc(1)
    assert cache.heal() == 1
    assert cache.peek(SPACE, ramp(4)) == 0
    cache.unpin(pin)
    assert cache.usage().free == 8


def test_a_chunk_cache_is_repaired_too() -> None:
    cache = ChunkCache(8, 2, 2, 4)
    for slot in (1, 2):
        cache.open(slot, SPACE, ints(), 0)
        grow(cache, slot, 4)
    cache.table[1, 0] = cache.table[2, 0]
    assert cache.heal() == 4
    assert cache.suspects() == (1, 2)
    assert cache.check() == []
