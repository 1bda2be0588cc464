"""Books: all that says who owns a page, gathered for those who check it or put it right."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from banyan.memory.ledger.lease import Leases
from banyan.memory.ledger.node import RadixNode
from banyan.memory.ledger.pages import TokenToKVPoolAllocator
from banyan.memory.ledger.radix import RadixTree
from banyan.wire.base import I32


@dataclass(frozen=True, slots=True)
class Books:
    """The parts of a cache. `pins` may name no node: then the pin holds nothing."""

    pages: TokenToKVPoolAllocator
    leases: Leases
    tree: RadixTree
    pins: dict[int, RadixNode | None]

    def slots(self) -> Iterator[int]:
        """Yield the open slots."""
        return (slot for slot in range(1, len(self.leases.nodes)) if self.leases.opened[slot])

    def private(self, slot: int) -> I32:
        """Return the pages that are a slot's own."""
        leases = self.leases
        return leases.table[slot, leases.shared[slot] : leases.held[slot]]

    def reachable(self) -> list[RadixNode]:
        """List every node of the tree once, roots too, each after its parent."""
        found: list[RadixNode] = []
        seen: set[int] = set()
        stack = list(self.tree.roots.values())
        while stack:
            node = stack.pop()
            if id(node) not in seen:  # a broken tree may lead back into itself
                seen.add(id(node))
                found.append(node)
                stack.extend(node.children.values())
        return found

    def locks(self, nodes: list[RadixNode]) -> Counter[int]:
        """Count by id() the locks that each of `nodes` must have: its own holders' and its children's."""
        counts = Counter(id(node) for node in self.leases.nodes if node is not None)
        counts.update(id(node) for node in self.pins.values() if node is not None)
        for node in reversed(nodes):
            for child in node.children.values():
                counts[id(node)] += counts[id(child)]
        return counts
