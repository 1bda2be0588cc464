from banyan.memory.ledger.books import Books
from banyan.memory.ledger.cache import RadixCache
from tests.unit.memory.ledger.helpers import SPACE, grow, ramp, serve


def _books() -> tuple[RadixCache, Books]:
    cache = RadixCache(16, 2, 4, 8)
    serve(cache, 1, ramp(4))
    serve(cache, 1, ramp(8))
    cache.open(2, SPACE, ramp(8), 4)
    grow(cache, 2, 7)
    cache.pin(SPACE, ramp(8))
    return cache, Books(cache.pages, cache.leases, cache.tree, cache.pins)


def test_every_node_is_listed_after_its_parent() -> None:
    _, books = _books()
    nodes = books.reachable()
    assert [len(node.pages) for node in nodes] == [0, 2, 2]
    assert all(node.parent in nodes[:index] for index, node in enumerate(nodes) if node.parent is not None)


def test_a_tree_that_leads_back_into_itself_is_listed_once() -> None:
    _, books = _books()
    nodes = books.reachable()
    nodes[2].children[b"loop"] = nodes[0]
    assert books.reachable() == nodes


def test_locks_are_counted_from_the_holders_up() -> None:
    _, books = _books()
    nodes = books.reachable()
    assert [books.locks(nodes)[id(node)] for node in nodes] == [2, 2, 1] == [node.lock for node in nodes]


def test_private_pages_are_those_after_the_shared() -> None:
    cache, books = _books()
    assert list(books.slots()) == [2]
    assert books.private(2).tolist() == cache.table[2, 2:4].tolist()
