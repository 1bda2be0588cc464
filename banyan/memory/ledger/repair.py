"""repair(): make broken books consistent again, and never by trusting a page that two claim.

What cannot be trusted is given up: a part of the tree is dropped, a slot loses its pages and is named doubtful, so that
its request is computed anew. Everything that is counted is counted again from what is left.
"""

import numpy as np

from banyan.memory.ledger.audit import all_pages, malformed, row_fault
from banyan.memory.ledger.books import Books
from banyan.memory.ledger.node import RadixNode
from banyan.wire.base import Bool


def repair(books: Books) -> int:
    """Repair a cache; return how many pages came back to the free list."""
    was_free = books.pages.is_free()
    nodes = _sound_nodes(books)
    suspects = _sound_rows(books, {id(node) for node in nodes})
    disputed = _disputed(books, nodes)
    if disputed.any():
        nodes = _keep(books, nodes, {id(node) for node in nodes if disputed[node.pages].any()})
    kept = {id(node) for node in nodes}
    for slot in books.slots():
        holder = books.leases.nodes[slot]
        if (holder is not None and id(holder) not in kept) or disputed[books.private(slot)].any():
            suspects.add(slot)
    for slot in suspects:
        _give_up(books, slot)
    _settle_pins(books, kept)
    nodes = _recount(books, nodes)
    owned = np.zeros(books.pages.num_pages + 1, np.bool_)
    owned[all_pages(node.pages for node in nodes)] = True
    owned[all_pages(books.private(slot) for slot in books.slots())] = True
    books.pages.rebuild(owned)
    return int(np.count_nonzero(books.pages.is_free() & ~was_free))


def _sound_nodes(books: Books) -> list[RadixNode]:
    """Drop every node that is malformed, with all below it; mend links and return the rest."""
    tree = books.tree
    for namespace, root in list(tree.roots.items()):
        root.namespace, root.parent = namespace, None
        if malformed(books, [root]):
            del tree.roots[namespace]
    nodes = books.reachable()
    bad = set(malformed(books, nodes))
    seen: set[int] = set()
    for node in nodes:
        for first, child in node.children.items():
            if child.run[: tree.page_bytes] != first or child.namespace is not None or id(child) in seen:
                bad.add(id(child))
            seen.add(id(child))
    return _keep(books, nodes, bad)


def _keep(books: Books, nodes: list[RadixNode], bad: set[int]) -> list[RadixNode]:
    """Cut the bad nodes off; return those that can still be reached, their links to their parents mended."""
    for node in nodes:
        node.children = {first: child for first, child in node.children.items() if id(child) not in bad}
    kept = books.reachable()
    reached = {id(node) for node in kept}
    for node in nodes:
        if id(node) not in reached:
            node.parent = None
    for node in kept:
        for child in node.children.values():
            child.parent = node
    return kept


def _sound_rows(books: Books, known: set[int]) -> set[int]:
    """Clear what closed slots must not have; return the open slots that hold what they cannot hold."""
    leases = books.leases
    suspects = set()
    for slot in range(1, len(leases.nodes)):
        node = leases.nodes[slot]
        if not leases.opened[slot]:
            leases.held[slot] = leases.shared[slot] = 0
            leases.nodes[slot] = None
        elif (node is not None and id(node) not in known) or row_fault(books, slot) is not None:
            suspects.add(slot)
            _give_up(books, slot)
    return suspects


def _disputed(books: Books, nodes: list[RadixNode]) -> Bool:
    """Mark every page that is claimed twice; the free list's claim does not count, it can be made anew."""
    in_tree = all_pages(node.pages for node in nodes)
    in_slots = all_pages(books.private(slot) for slot in books.slots())
    claims: Bool = np.bincount(np.concatenate((in_tree, in_slots)), minlength=books.pages.num_pages + 1) > 1
    return claims


def _give_up(books: Books, slot: int) -> None:
    """Leave a slot open and empty, to be closed by its owner: nothing it computes is shared any more."""
    leases = books.leases
    leases.table[slot] = 0
    leases.held[slot] = leases.shared[slot] = 0
    leases.nodes[slot] = None
    leases.doubtful.add(slot)


def _settle_pins(books: Books, kept: set[int]) -> None:
    """A pin of a node that is gone holds nothing: it was a wish to keep something, not a promise of what."""
    for number, node in books.pins.items():
        if node is not None and id(node) not in kept:
            books.pins[number] = None


def _recount(books: Books, nodes: list[RadixNode]) -> list[RadixNode]:
    """Set every count of the tree anew; return its nodes without those that nothing keeps."""
    tree = books.tree
    locks = books.locks(nodes)
    for node in nodes:
        node.lock = locks[id(node)]
    nodes = _keep(books, nodes, {id(node) for node in nodes if node.stale and node.lock == 0})
    tree.roots = {name: root for name, root in tree.roots.items() if root.children or root.lock}
    nodes = books.reachable()
    tree.evictable = sum(len(node.pages) for node in nodes if node.lock == 0)
    tree.locked = sum(len(node.pages) for node in nodes if node.lock != 0)
    tree.frontier.rebuild(nodes)
    return nodes
