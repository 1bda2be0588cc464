"""Leases: which pages each slot holds, which of them it shares, and which node of the tree it keeps locked."""

from collections.abc import Callable

import numpy as np

from banyan.memory.ledger.errors import LedgerError
from banyan.memory.ledger.node import RadixNode
from banyan.memory.ledger.pages import TokenToKVPoolAllocator
from banyan.wire.base import I32, Bool

_NONE: I32 = np.zeros(0, np.int32)


class Leases:
    """Columns over the slots. The arrays are never replaced, so others may keep them.

    The row of a slot:  [ 0 .. shared )     pages of the tree, locked by the slot's node, never written again
                        [ shared .. held )  pages of this slot alone
    """

    __slots__ = ("_pages", "_written", "doubtful", "held", "nodes", "opened", "priorities", "sealed", "shared", "table")

    def __init__(self, pages: TokenToKVPoolAllocator, num_slots: int, max_pages_per_slot: int) -> None:
        if num_slots < 1 or max_pages_per_slot < 1:
            raise LedgerError(f"at least one slot of one page is needed, not {num_slots} of {max_pages_per_slot}")
        self._pages = pages
        self.table: I32 = np.zeros((num_slots + 1, max_pages_per_slot), np.int32)
        self.held: I32 = np.zeros(num_slots + 1, np.int32)
        self.shared: I32 = np.zeros(num_slots + 1, np.int32)
        self.opened: Bool = np.zeros(num_slots + 1, np.bool_)
        self.sealed: Bool = np.zeros(num_slots + 1, np.bool_)  # the tree has the slot's next page: publish no more
        self.nodes: list[RadixNode | None] = [None] * (num_slots + 1)
        self.priorities: list[int] = [0] * (num_slots + 1)
        self.doubtful: set[int] = set()  # slots whose KV is not to be trusted any more
        self._written: list[tuple[I32, I32]] = []  # (slots, indices) of the entries written since the last drain

    @property
    def max_pages_per_slot(self) -> int:
        """Count the entries of a row."""
        return int(self.table.shape[1])

    def require(self, slot: int, opened: bool) -> None:
        """Refuse a slot that is out of range, or not in the state that the caller believes."""
        if not 1 <= slot < len(self.nodes):
            raise LedgerError(f"slot {slot} is outside 1..{len(self.nodes) - 1}")
        if self.opened[slot] != opened:
            raise LedgerError(f"slot {slot} is {'not open' if opened else 'open already'}")

    def open(self, slot: int, node: RadixNode | None, prefix: I32, priority: int) -> None:
        """Start a lease on the pages of a prefix that `node`, already locked, ends."""
        count = len(prefix)
        self.table[slot, :count] = prefix
        self.held[slot] = count
        self.shared[slot] = count
        self.opened[slot] = True
        self.sealed[slot] = False
        self.nodes[slot] = node
        self.priorities[slot] = priority
        if count:
            self._written.append((np.full(count, slot, np.int32), np.arange(count, dtype=np.int32)))

    def reserve(self, slots: I32, lengths: I32, make_room: Callable[[int], bool]) -> bool:
        """Give each slot the pages that `lengths` tokens need. All or nothing; `make_room(count)` may evict."""
        held = self.held.take(slots)  # half the time of indexing
        short = np.flatnonzero(lengths > held * self._pages.page_size)
        if len(short) == 0:
            return True
        rows = slots[short]
        first = held[short]
        target = -(-lengths[short] // self._pages.page_size)
        self._require_room(rows, target)
        counts = target - first
        total = int(counts.sum())
        if not make_room(total):
            return False
        pages = self._pages.alloc(total)
        if pages is None:
            return False
        entries, indices = rows, first
        if total > len(rows):  # some slot needs more than one page
            entries = np.repeat(rows, counts)
            starts = np.cumsum(counts) - counts
            indices = np.arange(total, dtype=np.int32) + np.repeat(first - starts, counts).astype(np.int32)
        self.table[entries, indices] = pages
        self.held[rows] = target
        self._written.append((entries, indices))
        return True

    def publish(self, slot: int, node: RadixNode, num_pages: int) -> None:
        """Take note that the first `num_pages` pages now belong to the tree, and that `node`, locked, ends them."""
        self.nodes[slot] = node
        self.shared[slot] = num_pages

    def clear(self, slot: int) -> None:
        """End a lease; its pages and its lock are the caller's to release."""
        self.table[slot, : self.held[slot]] = 0
        self.held[slot] = 0
        self.shared[slot] = 0
        self.opened[slot] = False
        self.nodes[slot] = None
        self.doubtful.discard(slot)

    def changes(self) -> tuple[I32, I32, I32]:
        """Drain (slots, indices, pages) of the entries written. An entry written twice may be named twice."""
        if not self._written:
            return _NONE, _NONE, _NONE
        slots = np.concatenate([slots for slots, _ in self._written])
        indices = np.concatenate([indices for _, indices in self._written])
        self._written.clear()
        live = indices < self.held[slots]  # a slot may have been closed since
        slots, indices = slots[live], indices[live]
        # Read now, not when written: so an entry named twice has one value and the order of copying does not matter.
        return slots, indices, self.table[slots, indices]

    def _require_room(self, slots: I32, num_pages: I32) -> None:
        if not self.opened[slots].all():
            raise LedgerError(f"slot {int(slots[~self.opened[slots]][0])} is not open")
        if int(num_pages.max()) > self.max_pages_per_slot:
            worst = int(num_pages.argmax())
            raise LedgerError(
                f"slot {int(slots[worst])} needs {int(num_pages[worst])} pages, more than the "
                f"{self.max_pages_per_slot} of a row"
            )
