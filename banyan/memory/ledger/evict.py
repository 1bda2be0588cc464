"""Frontier: the unlocked leaves of the tree in order of eviction, under lru, lfu, fifo or priority."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal

import numpy as np

from banyan.memory.ledger.node import RadixNode
from banyan.wire.base import I64

EvictionPolicy = Literal["lru", "lfu", "fifo", "priority"]

_TICK_BITS = 40  # a rank of two parts is one int64: the tick below, 23 bits above
_TOP = (1 << 22) - 1
_BLOCK = 512
_NOWHERE = int(np.iinfo(np.int64).max)  # the rank of a row without a leaf


def least_recent(node: RadixNode) -> int:
    """Rank by last use."""
    return node.tick


def least_frequent(node: RadixNode) -> int:
    """Rank by number of uses, then by last use."""
    return (min(node.hits, _TOP) << _TICK_BITS) + node.tick


def first_in(node: RadixNode) -> int:
    """Rank by the step that made it."""
    return node.born


def least_important(node: RadixNode) -> int:
    """Rank by priority, then by last use."""
    return (max(-_TOP, min(node.priority, _TOP)) << _TICK_BITS) + node.tick


# The lowest rank goes first. A rank changes only while its node is locked, that is, while it is not in the frontier.
ORDERS: Final[Mapping[EvictionPolicy, Callable[[RadixNode], int]]] = {
    "lru": least_recent,
    "lfu": least_frequent,
    "fifo": first_in,
    "priority": least_important,
}


class Frontier:
    """The tree reports every leaf that becomes evictable (`enter`) and every one that ceases to be (`leave`).

    Ranks lie in blocks of a column, and each block has a floor below which it has no leaf. A floor is lowered at once
    and raised only when it is met, so entering and leaving cost nothing to speak of and the search looks at one block.

    A lazy heap was measured against this: as fast for a leaf, but many hits leave it full of dead entries, and at
    100,000 leaves the sweep that clears them stops the scheduler for 0.1 s. Here the worst is to raise every floor.
    """

    __slots__ = ("_floors", "_nodes", "_order", "_ranks", "_spare", "num_leaves")

    def __init__(self, policy: EvictionPolicy) -> None:
        self._order = ORDERS[policy]
        self._floors: I64 = np.full(1, _NOWHERE, np.int64)  # [blocks]
        self._ranks: I64 = np.full((1, _BLOCK), _NOWHERE, np.int64)  # [blocks, rows of a block]
        self._nodes: list[RadixNode | None] = [None] * _BLOCK  # [blocks * rows of a block]
        self._spare = list(range(_BLOCK - 1, -1, -1))  # rows without a leaf
        self.num_leaves = 0

    def enter(self, node: RadixNode) -> None:
        """Take note that a node has become evictable."""
        if not self._spare:
            self._grow()
        row = self._spare.pop()
        block, place = divmod(row, _BLOCK)
        rank = self._order(node)
        node.row = row
        self._nodes[row] = node
        self._ranks[block, place] = rank
        self._floors[block] = min(rank, self._floors[block])
        self.num_leaves += 1

    def leave(self, node: RadixNode) -> None:
        """Take note that a node has ceased to be evictable."""
        row = node.row
        node.row = -1
        self._nodes[row] = None
        self._ranks[row // _BLOCK, row % _BLOCK] = _NOWHERE
        self._spare.append(row)
        self.num_leaves -= 1

    def first(self) -> RadixNode | None:
        """Return the next node to evict; it stays until it leaves."""
        while True:
            block = int(self._floors.argmin())
            floor = self._floors[block]
            if floor == _NOWHERE:
                return None
            ranks = self._ranks[block]
            place = int(ranks.argmin())
            if ranks[place] == floor:
                return self._nodes[block * _BLOCK + place]
            self._floors[block] = ranks[place]

    def rebuild(self, nodes: Iterable[RadixNode]) -> None:
        """Start over from all nodes of a tree."""
        self._floors[:] = _NOWHERE
        self._ranks[:] = _NOWHERE
        self._nodes[:] = [None] * len(self._nodes)
        self._spare[:] = range(len(self._nodes) - 1, -1, -1)
        self.num_leaves = 0
        for node in nodes:
            node.row = -1
            if node.evictable:
                self.enter(node)

    def leaves(self) -> list[RadixNode]:
        """List the nodes that eviction will come to, at their right rank."""
        ranks = self._ranks.ravel().tolist()
        sound = (self._ranks.min(axis=1) >= self._floors).tolist()
        return [
            node
            for row, node in enumerate(self._nodes)
            if node is not None and sound[row // _BLOCK] and ranks[row] == self._order(node)
        ]

    def _grow(self) -> None:
        """Double the rows."""
        blocks = len(self._floors)
        self._floors = np.concatenate((self._floors, np.full(blocks, _NOWHERE, np.int64)))
        self._ranks = np.concatenate((self._ranks, np.full((blocks, _BLOCK), _NOWHERE, np.int64)))
        rows = len(self._nodes)
        self._nodes.extend([None] * rows)
        self._spare.extend(range(2 * rows - 1, rows - 1, -1))
