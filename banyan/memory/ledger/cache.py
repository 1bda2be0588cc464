"""PrefixCache and its two forms: RadixCache shares prefixes between requests, ChunkCache does not."""

from typing import Literal, NamedTuple, Protocol

import numpy as np

from banyan.memory.ledger.audit import audit
from banyan.memory.ledger.books import Books
from banyan.memory.ledger.errors import LedgerError
from banyan.memory.ledger.evict import EvictionPolicy
from banyan.memory.ledger.lease import Leases
from banyan.memory.ledger.node import Namespace, RadixNode
from banyan.memory.ledger.pages import TokenToKVPoolAllocator
from banyan.memory.ledger.radix import RadixTree
from banyan.memory.ledger.repair import repair
from banyan.wire.base import I32

_NO_PAGES: I32 = np.zeros(0, np.int32)


class Pin(NamedTuple):
    """A prefix kept without a slot."""

    id: int
    num_tokens: int


class Usage(NamedTuple):
    """Where the pages are. The four add up to all pages."""

    free: int
    cached: int  # in the tree, may be evicted
    locked: int  # in the tree, held by a lease or a pin
    private: int  # a slot's own


class PrefixCache(Protocol):
    """Who holds which page. A lease runs from `open` to `close` of a slot."""

    page_size: int
    num_pages: int
    table: I32  # [num_slots + 1, max_pages_per_slot]
    held: I32  # [num_slots + 1] pages in each slot's row
    shared: I32  # [num_slots + 1] leading pages that belong to the tree and are locked for this slot

    def available(self) -> int:
        """Count the pages that `reserve` could hand out now."""

    def peek(self, namespace: Namespace, tokens: I32) -> int:
        """Return the length of the cached prefix in tokens; changes nothing."""

    def open(self, slot: int, namespace: Namespace, tokens: I32, limit: int, priority: int = 0) -> int:
        """Start a lease on the longest cached prefix of at most `limit` tokens; return its length."""

    def reserve(self, slots: I32, lengths: I32) -> bool:
        """Give each slot (none twice) pages for `lengths` tokens, all or nothing; evicts if needed."""

    def publish(self, slot: int, tokens: I32, length: int, born: int) -> None:
        """Share the full pages of tokens[:length], which step `born` or an earlier one computes.

        Where the tree has a page already, the slot keeps its own, and shares nothing more until it is closed.
        """

    def close(self, slot: int, tokens: I32, length: int, born: int) -> None:
        """End a lease: keep in the tree what is new of the full pages of tokens[:length], free everything else."""

    def changes(self) -> tuple[I32, I32, I32]:
        """Drain (slots, indices, pages) of the table entries written since the last call."""

    def invalidate(self, born: int) -> int:
        """Forget prefixes born at or after a step; return the pages freed. Locked ones are never matched again."""

    def flush(self) -> int:
        """Forget every prefix that is not locked; return the pages freed."""

    def pin(self, namespace: Namespace, tokens: I32) -> Pin:
        """Keep the longest cached prefix of some tokens until `unpin`."""

    def unpin(self, pin: Pin) -> None:
        """Let go of a pinned prefix."""

    def usage(self) -> Usage:
        """Tell where the pages are."""

    def check(self) -> list[str]:
        """Audit everything; return what is wrong, in words."""

    def heal(self) -> int:
        """Make the books consistent again; return the pages that came back to the free list. Never raises."""

    def suspects(self) -> tuple[int, ...]:
        """Name the open slots whose pages `heal` took away: close them and compute them anew."""


class RadixCache:
    """A PrefixCache over a radix tree."""

    def __init__(
        self,
        num_pages: int,
        page_size: int,
        num_slots: int,
        max_pages_per_slot: int,
        eviction_policy: EvictionPolicy = "lru",
    ) -> None:
        self.page_size = page_size
        self.num_pages = num_pages
        self.pages = TokenToKVPoolAllocator(num_pages, page_size)
        self.tree = RadixTree(self.pages, eviction_policy)
        self.leases = Leases(self.pages, num_slots, max_pages_per_slot)
        self.table = self.leases.table
        self.held = self.leases.held
        self.shared = self.leases.shared
        self.pins: dict[int, RadixNode | None] = {}
        self._next_pin = 1

    def available(self) -> int:
        """Count the free pages and those that may be evicted."""
        return self.pages.num_free + self.tree.evictable

    def peek(self, namespace: Namespace, tokens: I32) -> int:
        """Return the length of the cached prefix in tokens; changes nothing."""
        root = self.tree.roots.get(namespace)
        if root is None:
            return 0
        match = self.tree.match(root, tokens.tobytes(), 0)
        return (match.end // self.tree.page_bytes + match.branch_pages) * self.page_size

    def open(self, slot: int, namespace: Namespace, tokens: I32, limit: int, priority: int = 0) -> int:
        """Lock the longest cached prefix of at most `limit` tokens for a slot; return its length."""
        self.leases.require(slot, opened=False)
        node = self._acquire(namespace, tokens, limit, priority)
        prefix = self.tree.prefix_pages(node)
        self.leases.open(slot, node, prefix, priority)
        return len(prefix) * self.page_size

    def reserve(self, slots: I32, lengths: I32) -> bool:
        """Give each slot pages for `lengths` tokens, all or nothing; evicts if needed."""
        return self.leases.reserve(slots, lengths, self._make_room)

    def publish(self, slot: int, tokens: I32, length: int, born: int) -> None:
        """Hand the slot's new full pages to the tree and move its lock down over them."""
        leases = self.leases
        leases.require(slot, opened=True)
        above = leases.nodes[slot]
        shared = int(leases.shared[slot])
        full = length // self.page_size
        if full <= shared or leases.sealed[slot] or above is None:
            return
        self._require_tokens(slot, tokens, length)
        run = tokens[shared * self.page_size : full * self.page_size].tobytes()
        pages = leases.table[slot, shared:full].copy()
        node = self.tree.insert(above, run, pages, born, leases.priorities[slot])
        if node is None:
            leases.sealed[slot] = True
            return
        self.tree.lock(node, above)
        leases.publish(slot, node, full)

    def close(self, slot: int, tokens: I32, length: int, born: int) -> None:
        """Hand what is new of the slot's full pages to the tree, free the rest and the duplicates, unlock."""
        leases = self.leases
        leases.require(slot, opened=True)
        node = leases.nodes[slot]
        own = leases.table[slot, leases.shared[slot] : leases.held[slot]].copy()
        spare = own
        if node is not None:
            if length // self.page_size > leases.shared[slot]:
                self._require_tokens(slot, tokens, length)
                node, spare = self._bequeath(slot, node, own, tokens[:length], born)
            self.tree.unlock(node)
        self.pages.free(spare)
        leases.clear(slot)

    def changes(self) -> tuple[I32, I32, I32]:
        """Drain (slots, indices, pages) of the table entries written since the last call."""
        return self.leases.changes()

    def invalidate(self, born: int) -> int:
        """Forget prefixes born at or after a step; return the pages freed."""
        return self.tree.invalidate(born)

    def flush(self) -> int:
        """Forget every prefix that is not locked; return the pages freed."""
        return self.tree.flush()

    def pin(self, namespace: Namespace, tokens: I32) -> Pin:
        """Lock the longest cached prefix of some tokens until `unpin`."""
        node = self._acquire(namespace, tokens, len(tokens), 0)
        pin = Pin(self._next_pin, len(self.tree.prefix_pages(node)) * self.page_size)
        self._next_pin += 1
        self.pins[pin.id] = node
        return pin

    def unpin(self, pin: Pin) -> None:
        """Let go of a pinned prefix."""
        if pin.id not in self.pins:
            raise LedgerError(f"pin {pin.id} is not held")
        node = self.pins.pop(pin.id)
        if node is not None:
            self.tree.unlock(node)

    def usage(self) -> Usage:
        """Tell where the pages are."""
        free, cached, locked = self.pages.num_free, self.tree.evictable, self.tree.locked
        return Usage(free, cached, locked, self.num_pages - free - cached - locked)

    def check(self) -> list[str]:
        """Audit everything; return what is wrong, in words."""
        return audit(self._books())

    def heal(self) -> int:
        """Make the books consistent again; return the pages that came back to the free list."""
        return repair(self._books())

    def suspects(self) -> tuple[int, ...]:
        """Name the open slots whose pages `heal` took away."""
        return tuple(sorted(self.leases.doubtful))

    def _books(self) -> Books:
        return Books(self.pages, self.leases, self.tree, self.pins)

    def _acquire(self, namespace: Namespace, tokens: I32, limit: int, priority: int) -> RadixNode:
        """Lock the longest cached prefix and count the use."""
        num_pages = min(len(tokens), max(limit, 0)) // self.page_size
        num_pages = min(num_pages, self.leases.max_pages_per_slot)
        data = tokens[: num_pages * self.page_size].tobytes()
        root = self.tree.root(namespace)
        node = self.tree.settle(self.tree.match(root, data, 0))
        self.tree.lock(node)
        self.tree.touch(node, priority)
        return node

    def _make_room(self, num_pages: int) -> bool:
        missing = num_pages - self.pages.num_free
        if missing <= 0:
            return True
        return missing <= self.tree.evictable and self.tree.evict(missing) == missing

    def _bequeath(self, slot: int, above: RadixNode, own: I32, tokens: I32, born: int) -> tuple[RadixNode, I32]:
        """Give the tree what it lacks of `tokens`. Return the node that the slot holds now, and its pages to free.

        own:  [ in the tree already | new, the tree takes them | not full ]
        """
        tree = self.tree
        shared = int(self.leases.shared[slot])
        full = len(tokens) // self.page_size
        data = tokens[: full * self.page_size].tobytes()
        match = tree.match(above, data, shared * tree.page_bytes)
        known = match.end // tree.page_bytes + match.branch_pages
        node = tree.settle(match)
        taken = known
        if known < full:
            pages = own[known - shared : full - shared].copy()
            leaf = tree.insert(node, data[known * tree.page_bytes :], pages, born, self.leases.priorities[slot])
            if leaf is not None:
                node, taken = leaf, full
        tree.lock(node, above)
        return node, np.concatenate((own[: known - shared], own[taken - shared :]))

    def _require_tokens(self, slot: int, tokens: I32, length: int) -> None:
        room = int(self.leases.held[slot]) * self.page_size
        if length > len(tokens) or length > room:
            raise LedgerError(f"slot {slot} has pages for {room} tokens and {len(tokens)} tokens, not {length}")


class ChunkCache:
    """A PrefixCache that keeps nothing: each request computes its whole prompt, whatever its tokens are."""

    def __init__(self, num_pages: int, page_size: int, num_slots: int, max_pages_per_slot: int) -> None:
        self.page_size = page_size
        self.num_pages = num_pages
        self.pages = TokenToKVPoolAllocator(num_pages, page_size)
        self.leases = Leases(self.pages, num_slots, max_pages_per_slot)
        self.table = self.leases.table
        self.held = self.leases.held
        self.shared = self.leases.shared
        self._tree = RadixTree(self.pages, "lru")  # stays empty: so there is one audit, not two

    def available(self) -> int:
        """Count the free pages."""
        return self.pages.num_free

    def peek(self, namespace: Namespace, tokens: I32) -> int:  # noqa: ARG002
        """Find nothing."""
        return 0

    def open(self, slot: int, namespace: Namespace, tokens: I32, limit: int, priority: int = 0) -> int:  # noqa: ARG002
        """Start a lease of no pages."""
        self.leases.require(slot, opened=False)
        self.leases.open(slot, None, _NO_PAGES, priority)
        return 0

    def reserve(self, slots: I32, lengths: I32) -> bool:
        """Give each slot pages for `lengths` tokens, all or nothing."""
        return self.leases.reserve(slots, lengths, self._has_room)

    def publish(self, slot: int, tokens: I32, length: int, born: int) -> None:
        """Share nothing."""

    def close(self, slot: int, tokens: I32, length: int, born: int) -> None:  # noqa: ARG002
        """Free the slot's pages."""
        self.leases.require(slot, opened=True)
        self.pages.free(self.leases.table[slot, : self.leases.held[slot]])
        self.leases.clear(slot)

    def changes(self) -> tuple[I32, I32, I32]:
        """Drain (slots, indices, pages) of the table entries written since the last call."""
        return self.leases.changes()

    def invalidate(self, born: int) -> int:  # noqa: ARG002
        """Forget nothing: nothing is kept."""
        return 0

    def flush(self) -> int:
        """Forget nothing: nothing is kept."""
        return 0

    def pin(self, namespace: Namespace, tokens: I32) -> Pin:  # noqa: ARG002
        """Keep nothing."""
        return Pin(0, 0)

    def unpin(self, pin: Pin) -> None:
        """Let go of nothing."""

    def usage(self) -> Usage:
        """Tell where the pages are."""
        return Usage(self.pages.num_free, 0, 0, self.num_pages - self.pages.num_free)

    def check(self) -> list[str]:
        """Audit everything; return what is wrong, in words."""
        return audit(self._books())

    def heal(self) -> int:
        """Make the books consistent again; return the pages that came back to the free list."""
        return repair(self._books())

    def suspects(self) -> tuple[int, ...]:
        """Name the open slots whose pages `heal` took away."""
        return tuple(sorted(self.leases.doubtful))

    def _books(self) -> Books:
        return Books(self.pages, self.leases, self._tree, {})

    def _has_room(self, num_pages: int) -> bool:
        return num_pages <= self.pages.num_free


def make_cache(
    kind: Literal["radix", "chunk"],
    num_pages: int,
    page_size: int,
    num_slots: int,
    max_pages_per_slot: int,
    eviction_policy: EvictionPolicy = "lru",
) -> PrefixCache:
    """Build the cache that the config names."""
    if kind == "radix":
        return RadixCache(num_pages, page_size, num_slots, max_pages_per_slot, eviction_policy)
    return ChunkCache(num_pages, page_size, num_slots, max_pages_per_slot)
