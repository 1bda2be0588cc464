"""RadixTree: cached prefixes, page by page: match, insert, split, lock, unlock, evict.

A lock is counted on every node from the locked one up to its root. So an unlocked node has no locked node below it,
and every page of every unlocked node can be had by evicting leaves.
"""

from typing import NamedTuple

import numpy as np

from banyan.memory.ledger.errors import LedgerError
from banyan.memory.ledger.evict import EvictionPolicy, Frontier
from banyan.memory.ledger.node import Namespace, RadixNode
from banyan.memory.ledger.pages import TokenToKVPoolAllocator
from banyan.wire.base import I32

__all__ = ["Match", "Namespace", "RadixNode", "RadixTree"]

_TOKEN_BYTES = 4
_NO_PAGES: I32 = np.zeros(0, np.int32)


class Match(NamedTuple):
    """How far some tokens can be followed: to the end of `node`, then `branch_pages` whole pages into `branch`."""

    node: RadixNode
    end: int  # offset in the tokens' bytes where `node` ends
    branch: RadixNode | None
    branch_pages: int


class RadixTree:
    """One tree a namespace, over one pool of pages. Tokens are given as the bytes of an int32 array."""

    __slots__ = ("_serial", "_tick", "evictable", "frontier", "locked", "page_bytes", "pages", "roots")

    def __init__(self, pages: TokenToKVPoolAllocator, eviction_policy: EvictionPolicy) -> None:
        self.pages = pages
        self.page_bytes = pages.page_size * _TOKEN_BYTES
        self.roots: dict[Namespace, RadixNode] = {}  # only those with a child or a lock
        self.frontier = Frontier(eviction_policy)
        self.evictable = 0  # pages in unlocked nodes
        self.locked = 0  # pages in locked nodes
        self._tick = 0
        self._serial = 0

    def root(self, namespace: Namespace) -> RadixNode:
        """Find or make a namespace's root. The caller locks it or hangs a node below it at once."""
        root = self.roots.get(namespace)
        if root is None:
            root = self._node(None, b"", _NO_PAGES)
            root.namespace = namespace
            self.roots[namespace] = root
        return root

    def match(self, node: RadixNode, data: bytes, start: int) -> Match:
        """Follow data[start:] down from `node`. Changes nothing."""
        size = self.page_bytes
        last = len(data) - size
        while start <= last:
            child = node.children.get(data[start : start + size])
            if child is None or child.stale:
                break
            if not data.startswith(child.run, start):
                return Match(node, start, child, self._common_pages(child.run, data, start))
            node = child
            start += len(child.run)
        return Match(node, start, None, 0)

    def settle(self, match: Match) -> RadixNode:
        """Return the node that ends where the match does, splitting one if it must."""
        if match.branch is None:
            return match.node
        return self.split(match.branch, match.branch_pages)

    def split(self, node: RadixNode, num_pages: int) -> RadixNode:
        """Cut a node after `num_pages` and return the new upper part.

        The lower part stays the same object with the same count, so whoever holds it still does, and holds the
        upper part too: everyone who passed through the whole passes through both parts.
        """
        parent = node.parent
        if parent is None or not 0 < num_pages < len(node.pages):
            raise LedgerError(f"cannot split a node of {len(node.pages)} pages after {num_pages}")
        cut = num_pages * self.page_bytes
        upper = self._node(parent, node.run[:cut], node.pages[:num_pages])
        upper.lock, upper.tick, upper.hits = node.lock, node.tick, node.hits
        upper.priority, upper.born, upper.stale = node.priority, node.born, node.stale
        parent.children[node.run[: self.page_bytes]] = upper
        node.run = node.run[cut:]
        node.pages = node.pages[num_pages:]
        node.parent = upper
        upper.children[node.run[: self.page_bytes]] = node
        return upper

    def insert(self, parent: RadixNode, run: bytes, pages: I32, born: int, priority: int) -> RadixNode | None:
        """Hang a new leaf below `parent`; the tree owns `pages` from now on. None when its first page is there."""
        first = run[: self.page_bytes]
        if first in parent.children:
            return None
        was_leaf = parent.evictable
        node = self._node(parent, run, pages)
        node.born, node.priority = born, priority
        self._tick += 1
        node.tick = self._tick
        parent.children[first] = node
        self.evictable += len(pages)
        self.frontier.enter(node)
        if was_leaf:
            self.frontier.leave(parent)
        return node

    def touch(self, node: RadixNode, priority: int) -> None:
        """Count a use of a prefix: the recency, frequency and priority of every node up to the root."""
        self._tick += 1
        tick = self._tick
        step: RadixNode | None = node
        while step is not None:
            step.tick = tick
            step.hits += 1
            step.priority = max(step.priority, priority)
            step = step.parent

    def lock(self, node: RadixNode, above: RadixNode | None = None) -> None:
        """Keep a prefix from eviction. A holder of `above` who moves down to `node` locks what lies between."""
        step: RadixNode | None = node
        while step is not above and step is not None:
            was_leaf = step.evictable
            step.lock += 1
            if step.lock == 1:
                self.evictable -= len(step.pages)
                self.locked += len(step.pages)
                if was_leaf:
                    self.frontier.leave(step)
            step = step.parent

    def unlock(self, node: RadixNode) -> None:
        """Let go of a prefix; that is also a use of it."""
        self._tick += 1
        tick = self._tick
        doomed: RadixNode | None = None
        step: RadixNode | None = node
        top = node
        while step is not None:
            step.tick = tick
            step.lock -= 1
            if step.lock == 0:
                self.locked -= len(step.pages)
                self.evictable += len(step.pages)
                if step.evictable:
                    self.frontier.enter(step)
                if step.stale:
                    doomed = step
            top = step
            step = step.parent
        if doomed is not None:
            self._release(self._drop(doomed))
        self._prune(top)

    def evict(self, num_pages: int) -> int:
        """Free pages, the least valuable unlocked leaves first, the last one only as far as needed.

        A prefix is worth something without its tail, so a leaf is shortened from its end.
        """
        freed: list[I32] = []
        missing = num_pages
        while missing > 0:
            node = self.frontier.first()
            if node is None:
                break
            count = len(node.pages)
            if count > missing:
                keep = count - missing
                freed.append(node.pages[keep:])
                node.pages = node.pages[:keep]
                node.run = node.run[: keep * self.page_bytes]
                missing = 0
                break
            freed.append(node.pages)
            missing -= count
            self.frontier.leave(node)
            self._detach(node)
            node.parent = None
        return self._release(freed)

    def invalidate(self, born: int) -> int:
        """Drop what was born at `born` or later, with everything below it; return the number of pages freed.

        A locked node cannot go yet: it is hidden from every match, and goes with its last lock.
        """
        freed: list[I32] = []
        stack = list(self.roots.values())
        while stack:
            node = stack.pop()
            for child in list(node.children.values()):
                # Something older may hang below something void: it has been cut off from its prefix, so it goes too.
                if child.born < born and not node.stale:
                    stack.append(child)
                elif child.lock == 0:
                    freed += self._drop(child)
                else:
                    child.stale = True
                    stack.append(child)
        return self._release(freed)

    def flush(self) -> int:
        """Drop everything that is not locked; return the number of pages freed."""
        freed: list[I32] = []
        stack = list(self.roots.values())
        while stack:
            for child in list(stack.pop().children.values()):
                if child.lock == 0:
                    freed += self._drop(child)
                else:
                    stack.append(child)
        return self._release(freed)

    def prefix_pages(self, node: RadixNode) -> I32:
        """Return the pages from the root to the end of a node."""
        parts = []
        step = node
        while step.parent is not None:
            parts.append(step.pages)
            step = step.parent
        parts.reverse()
        return np.concatenate(parts) if parts else _NO_PAGES

    def _node(self, parent: RadixNode | None, run: bytes, pages: I32) -> RadixNode:
        self._serial += 1
        return RadixNode(parent, run, pages, self._serial)

    def _common_pages(self, run: bytes, data: bytes, start: int) -> int:
        count = min(len(run), len(data) - start) // _TOKEN_BYTES
        differs = np.frombuffer(run, np.int32, count) != np.frombuffer(data, np.int32, count, start)
        first = int(differs.argmax())
        return (first if differs[first] else count) // self.pages.page_size

    def _drop(self, node: RadixNode) -> list[I32]:
        """Cut off an unlocked node and all below it; return their pages, which the caller releases."""
        self._detach(node)
        freed: list[I32] = []
        stack = [node]
        while stack:
            step = stack.pop()
            was_leaf = step.evictable
            step.parent = None
            if was_leaf:
                self.frontier.leave(step)
            stack.extend(step.children.values())
            freed.append(step.pages)
        return freed

    def _detach(self, node: RadixNode) -> None:
        """Take a node out of its parent, which may become a leaf, or a root that is no longer needed."""
        parent = node.parent
        if parent is None:
            raise LedgerError("cannot drop a root, or a node a second time")
        del parent.children[node.run[: self.page_bytes]]
        if parent.evictable:
            self.frontier.enter(parent)
        self._prune(parent)

    def _prune(self, node: RadixNode) -> None:
        if node.namespace is not None and not node.children and node.lock == 0:
            self.roots.pop(node.namespace, None)

    def _release(self, freed: list[I32]) -> int:
        if not freed:
            return 0
        pages = np.concatenate(freed)
        self.pages.free(pages)
        self.evictable -= len(pages)
        return len(pages)
