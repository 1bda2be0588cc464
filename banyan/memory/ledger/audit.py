"""audit(): every page has one owner, every lock a holder, every count is right; what is not so is said in words."""

from collections.abc import Iterable

import numpy as np

from banyan.memory.ledger.books import Books
from banyan.memory.ledger.node import RadixNode
from banyan.wire.base import I32

_LISTED = 8  # findings of one kind that are spelled out
_NO_PAGES: I32 = np.zeros(0, np.int32)


def audit(books: Books) -> list[str]:
    """Audit a cache. An empty answer means that all is well."""
    nodes = books.reachable()
    findings = [*_free_list(books), *_shape(books, nodes), *_lock_counts(books, nodes)]
    findings += _counters(books, nodes)
    findings += _frontier(books, nodes)
    for slot in range(1, len(books.leases.nodes)):
        findings += _lease(books, slot)
    findings += _holders(books, nodes)
    findings += _owners(books, nodes)
    return findings


def malformed(books: Books, nodes: list[RadixNode]) -> dict[int, str]:
    """Tell by id() what is wrong with nodes, each taken alone."""
    page_bytes, num_pages = books.tree.page_bytes, books.pages.num_pages
    faults = {}
    for node in nodes:
        is_root = node.namespace is not None
        if len(node.run) != len(node.pages) * page_bytes or is_root == bool(node.run):
            faults[id(node)] = f"node {node.serial} has {len(node.pages)} pages for {len(node.run)} bytes of tokens"
    if not _in_range(all_pages(node.pages for node in nodes), num_pages):
        for node in nodes:
            if not _in_range(node.pages, num_pages):
                faults[id(node)] = f"node {node.serial} has a page outside 1..{num_pages}"
    return faults


def all_pages(parts: Iterable[I32]) -> I32:
    """Join lists of pages."""
    return np.concatenate([_NO_PAGES, *parts])


def row_fault(books: Books, slot: int) -> str | None:
    """Tell what is wrong with the row of an open slot taken alone, against the node it holds."""
    leases = books.leases
    held, shared, node = int(leases.held[slot]), int(leases.shared[slot]), leases.nodes[slot]
    if not 0 <= shared <= held <= leases.max_pages_per_slot:
        return f"slot {slot} holds {held} pages and shares {shared}"
    row = leases.table[slot, :held]
    if not _in_range(row, books.pages.num_pages):
        return f"slot {slot} has a page outside 1..{books.pages.num_pages}"
    prefix = books.tree.prefix_pages(node) if node is not None else row[:0]
    if not np.array_equal(row[:shared], prefix):
        return f"slot {slot} shares {shared} pages that are not the {len(prefix)} of its prefix"
    return None


def _in_range(pages: I32, num_pages: int) -> bool:
    return len(pages) == 0 or (int(pages.min()) >= 1 and int(pages.max()) <= num_pages)


def _free_list(books: Books) -> list[str]:
    pages = books.pages
    listed, marked = pages.free_list(), np.flatnonzero(pages.is_free())
    if np.array_equal(np.sort(listed), marked):
        return []
    return [f"the free list has {len(listed)} pages, but {len(marked)} are marked free, or they are not the same"]


def _shape(books: Books, nodes: list[RadixNode]) -> list[str]:
    tree = books.tree
    findings = list(malformed(books, nodes).values())
    for node in nodes:
        for first, child in node.children.items():
            if child.parent is not node or child.run[: tree.page_bytes] != first:
                findings.append(f"node {child.serial} is not what its parent {node.serial} takes it for")
        if node.stale and node.lock == 0:
            findings.append(f"node {node.serial} is void and unlocked, but still there")
    for namespace, root in tree.roots.items():
        if root.namespace != namespace or root.parent is not None:
            findings.append(f"the root of {namespace} is not a root or of another namespace")
        if not root.children and root.lock == 0:
            findings.append(f"the root of {namespace} is empty, but still there")
    return findings


def _lock_counts(books: Books, nodes: list[RadixNode]) -> list[str]:
    expected = books.locks(nodes)
    return [
        f"node {node.serial} has {node.lock} locks, but {expected[id(node)]} leases and pins hold it"
        for node in nodes
        if node.lock != expected[id(node)]
    ]


def _counters(books: Books, nodes: list[RadixNode]) -> list[str]:
    tree = books.tree
    evictable = sum(len(node.pages) for node in nodes if node.lock == 0)
    locked = sum(len(node.pages) for node in nodes if node.lock != 0)
    findings = []
    if tree.evictable != evictable:
        findings.append(f"the tree counts {tree.evictable} evictable pages, but has {evictable}")
    if tree.locked != locked:
        findings.append(f"the tree counts {tree.locked} locked pages, but has {locked}")
    return findings


def _frontier(books: Books, nodes: list[RadixNode]) -> list[str]:
    frontier = books.tree.frontier
    expected = {id(node): node for node in nodes if node.evictable}
    entries = {id(node): node for node in frontier.leaves()}
    findings = []
    if frontier.num_leaves != len(entries):
        findings.append(f"the frontier counts {frontier.num_leaves} leaves, but has {len(entries)}")
    findings += [f"leaf {node.serial} can never be evicted" for key, node in expected.items() if key not in entries]
    findings += [f"node {node.serial} must not be evicted" for key, node in entries.items() if key not in expected]
    return findings


def _lease(books: Books, slot: int) -> list[str]:
    leases = books.leases
    if leases.opened[slot]:
        fault = row_fault(books, slot)
        return [fault] if fault else []
    if leases.held[slot] or leases.shared[slot] or leases.nodes[slot] is not None:
        return [f"slot {slot} is closed, but holds {int(leases.held[slot])} pages or a lock"]
    return []


def _holders(books: Books, nodes: list[RadixNode]) -> list[str]:
    known = {id(node) for node in nodes}
    findings = [
        f"slot {slot} holds node {node.serial}, which is not in the tree"
        for slot, node in enumerate(books.leases.nodes)
        if node is not None and id(node) not in known
    ]
    findings += [
        f"pin {number} holds node {node.serial}, which is not in the tree"
        for number, node in books.pins.items()
        if node is not None and id(node) not in known
    ]
    return findings


def _owners(books: Books, nodes: list[RadixNode]) -> list[str]:
    num_pages = books.pages.num_pages
    owners: list[tuple[str, I32]] = [("the free list", books.pages.free_list())]
    owners += [(f"node {node.serial}", node.pages) for node in nodes]
    owners += [(f"slot {slot}", books.private(slot)) for slot in books.slots()]
    claims = all_pages(pages for _, pages in owners)
    claims = claims[(claims >= 1) & (claims <= num_pages)]
    counts = np.bincount(claims, minlength=num_pages + 1)
    lost = np.flatnonzero(counts[1:] == 0) + 1
    findings = []
    if len(lost):
        listed = ", ".join(str(page) for page in lost[:_LISTED].tolist())
        findings.append(f"{len(lost)} pages have no owner: {listed}{', ...' if len(lost) > _LISTED else ''}")
    disputed = np.flatnonzero(counts > 1)
    for page in disputed[:_LISTED].tolist():
        names = [name for name, pages in owners if page in pages]
        findings.append(f"page {page} has {int(counts[page])} owners: {', '.join(names)}")
    if len(disputed) > _LISTED:
        findings.append(f"{len(disputed) - _LISTED} more pages have several owners")
    return findings
