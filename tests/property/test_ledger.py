"""Random lives of both caches against a model that knows what each page really holds."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from banyan.memory.ledger.books import Books
from banyan.memory.ledger.cache import ChunkCache, Pin, RadixCache, Usage
from banyan.memory.ledger.evict import EvictionPolicy
from banyan.memory.ledger.node import Namespace, RadixNode
from banyan.wire.base import I32

NUM_PAGES = 14
NUM_SLOTS = 5
WIDTH = 8

SPACES = (Namespace("", "", 0), Namespace("salt", "", 0))
POLICIES: tuple[EvictionPolicy, ...] = ("lru", "lfu", "fifo", "priority")

picks = st.integers(0, 1000)
rarely = st.sampled_from([False, False, False, False, True])  # else the caches would be empty most of the time
# Two letters and a common start: prompts meet and part often.
prompts = st.lists(st.integers(0, 1), max_size=12).map(lambda tail: (7, 7, 7, *tail))


@dataclass(frozen=True)
class Content:
    """What a page holds: KV of the last tokens of `prefix`, written by `step`. KV depends on the whole prefix."""

    namespace: Namespace
    prefix: tuple[int, ...]
    step: int


@dataclass
class Request:
    """What the model knows of an open slot."""

    namespace: Namespace
    tokens: tuple[int, ...]
    computed: int
    last_step: int

    def array(self) -> I32:
        """The tokens as the ledger wants them."""
        return np.array(self.tokens, np.int32)


class LedgerMachine(RuleBasedStateMachine):
    """The rules that both caches obey. The machine is the scheduler, the device and the judge."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: dict[int, Request] = {}
        self.memory: dict[int, Content] = {}  # by page; a page computed by a failed step is not here
        self.pins: list[Pin] = []
        self.device = np.zeros((NUM_SLOTS + 1, WIDTH), np.int32)
        self.step = 0
        self.page_size = 1
        self.cache: RadixCache | ChunkCache = ChunkCache(1, 1, 1, 1)

    # What the machine looks at.

    def nodes(self) -> list[RadixNode]:
        """Every node of the tree, if there is one."""
        cache = self.cache
        if isinstance(cache, ChunkCache):
            return []
        return Books(cache.pages, cache.leases, cache.tree, cache.pins).reachable()

    def cached(self) -> dict[tuple[Namespace, tuple[int, ...]], int]:
        """Each cached prefix, page by page, and the page at its end."""
        found = {}
        prefixes: dict[int, tuple[Namespace, tuple[int, ...]] | None] = {}
        for node in self.nodes():
            if node.parent is None:
                assert node.namespace is not None
                prefixes[id(node)] = (node.namespace, ())
                continue
            above = prefixes[id(node.parent)]
            if above is None or node.stale:
                prefixes[id(node)] = None
                continue
            namespace, prefix = above
            tokens = node.key.tolist()
            for index, page in enumerate(node.pages.tolist()):
                prefix = (*prefix, *tokens[index * self.page_size : (index + 1) * self.page_size])
                found[namespace, prefix] = page
            prefixes[id(node)] = (namespace, prefix)
        return found

    def longest(self, namespace: Namespace, tokens: tuple[int, ...]) -> int:
        """The length of the cached prefix, found the slow way."""
        cached = self.cached()
        length = 0
        while length + self.page_size <= len(tokens) and (namespace, tokens[: length + self.page_size]) in cached:
            length += self.page_size
        return length

    def write(self, slot: int, start: int, stop: int) -> None:
        """Compute tokens of a slot: no page that anyone else may read is written."""
        request = self.requests[slot]
        readable = {page for node in self.nodes() for page in node.pages.tolist()}
        for other in self.requests:
            if other != slot:
                readable.update(self.cache.table[other, : self.cache.held[other]].tolist())
        for position in range(start, stop):
            page = int(self.cache.table[slot, position // self.page_size])
            assert page not in readable
            self.memory[page] = Content(request.namespace, request.tokens[: position + 1], self.step)

    # What may happen.

    @precondition(lambda self: len(self.requests) < NUM_SLOTS)
    @rule(pick=picks, other=rarely, tokens=prompts, spare=st.integers(0, 6), priority=st.integers(-1, 2))
    def open(self, pick: int, other: bool, tokens: tuple[int, ...], spare: int, priority: int) -> None:
        """A request comes."""
        closed = [slot for slot in range(1, NUM_SLOTS + 1) if slot not in self.requests]
        slot, namespace = closed[pick % len(closed)], SPACES[other]
        limit = max(0, len(tokens) - spare)
        expected = self.longest(namespace, tokens[:limit])
        array = np.array(tokens, np.int32)
        assert self.cache.peek(namespace, array[:limit]) == expected
        cached = self.cache.open(slot, namespace, array, limit, priority)
        assert cached == expected
        assert self.cache.held[slot] == self.cache.shared[slot] == cached // self.page_size
        self.requests[slot] = Request(namespace, tokens, cached, 0)

    @precondition(lambda self: self.requests)
    @rule(
        amounts=st.lists(st.integers(0, 8), min_size=NUM_SLOTS, max_size=NUM_SLOTS),
        letter=st.integers(0, 1),
        publish=st.booleans(),
    )
    def compute(self, amounts: list[int], letter: int, publish: bool) -> None:
        """A step: some slots compute some tokens more."""
        targets = {}
        for (slot, request), amount in zip(self.requests.items(), amounts, strict=False):
            stop = min(request.computed + amount, WIDTH * self.page_size)
            request.tokens += (letter,) * (stop - len(request.tokens))
            targets[slot] = stop
        rows = np.array(list(targets), np.int32)
        lengths = np.array(list(targets.values()), np.int32)
        before, available = self.cache.usage(), self.cache.available()
        lacking = sum(max(0, -(-stop // self.page_size) - int(self.cache.held[s])) for s, stop in targets.items())
        done = self.cache.reserve(rows, lengths)
        assert done == (lacking <= available)
        if not done:
            assert self.cache.usage() == before
            return
        self.step += 1
        for slot, stop in targets.items():
            request = self.requests[slot]
            self.write(slot, request.computed, stop)
            request.computed, request.last_step = stop, self.step
            if publish:
                self.publish(slot)

    def publish(self, slot: int) -> None:
        """Share what a slot has computed; its own pages stay where they are."""
        request, row = self.requests[slot], self.cache.table[slot].tolist()
        self.cache.publish(slot, request.array(), request.computed, self.step)
        assert self.cache.table[slot].tolist() == row
        shared = int(self.cache.shared[slot])
        for node in self.nodes():
            if node.stale:  # below a void node nothing can be found
                return
        assert self.longest(request.namespace, request.tokens) >= shared * self.page_size

    @precondition(lambda self: self.requests)
    @rule(pick=picks, retract=rarely)
    def close(self, pick: int, retract: bool) -> None:
        """A request ends, or is retracted (its length is then nothing)."""
        slot = list(self.requests)[pick % len(self.requests)]
        request = self.requests.pop(slot)
        length = 0 if retract else request.computed
        # What it computed is as old as its last step, though the tree may have grown younger nodes since.
        self.cache.close(slot, request.array(), length, request.last_step)
        full = length // self.page_size * self.page_size
        if isinstance(self.cache, RadixCache) and not any(node.stale for node in self.nodes()):
            assert self.longest(request.namespace, request.tokens) >= full

    @rule(back=st.integers(0, 4), rare=rarely)
    def fail(self, back: int, rare: bool) -> None:
        """The last steps fail: everyone is retracted, and what those steps computed is void."""
        if not rare:
            return
        first = self.step - back
        for slot, request in self.requests.items():
            self.cache.close(slot, request.array(), 0, self.step)
        self.requests.clear()
        self.cache.invalidate(first)
        self.memory = {page: content for page, content in self.memory.items() if content.step < first}

    @precondition(lambda self: len(self.pins) < 2)
    @rule(tokens=prompts)
    def pin(self, tokens: tuple[int, ...]) -> None:
        """A session keeps a prefix."""
        expected = min(self.longest(SPACES[0], tokens), WIDTH * self.page_size)
        pin = self.cache.pin(SPACES[0], np.array(tokens, np.int32))
        assert pin.num_tokens == expected
        self.pins.append(pin)

    @precondition(lambda self: self.pins)
    @rule()
    def unpin(self) -> None:
        """A session lets go."""
        self.cache.unpin(self.pins.pop(0))

    @rule(rare=rarely)
    def flush(self, rare: bool) -> None:
        """Somebody asks for an empty cache."""
        if not rare:
            return
        before = self.cache.usage()
        assert self.cache.flush() == before.cached
        assert self.cache.usage() == Usage(before.free + before.cached, 0, before.locked, before.private)

    @rule(turn=picks)
    def drain(self, turn: int) -> None:
        """The device's page table follows, whatever the order in which the changes are copied."""
        rows, indices, pages = self.cache.changes()
        for at in np.random.default_rng(turn).permutation(len(rows)).tolist():
            assert int(indices[at]) < int(self.cache.held[rows[at]])
            self.device[rows[at], indices[at]] = pages[at]
        for slot in self.requests:
            held = self.cache.held[slot]
            assert self.device[slot, :held].tolist() == self.cache.table[slot, :held].tolist()

    @rule(fault=st.sampled_from(["leak", "own twice", "lock", "count"]), pick=picks, rare=rarely)
    def corrupt(self, fault: str, pick: int, rare: bool) -> None:
        """The books go wrong: it is seen, and they are put right."""
        if not rare or not self.plant(fault, pick):
            return
        assert self.cache.check() != []
        before = self.cache.pages.num_free
        recovered = self.cache.heal()
        assert recovered >= (fault == "leak")
        assert self.cache.pages.num_free == before + recovered
        for slot in self.cache.suspects():
            assert fault == "own twice"
            request = self.requests.pop(slot)
            self.cache.close(slot, request.array(), request.computed, self.step)
        assert self.cache.suspects() == ()

    def plant(self, fault: str, pick: int) -> bool:
        """Plant a fault; tell whether there was a place for it."""
        cache = self.cache
        nodes = self.nodes()
        if fault == "leak":
            pages = cache.pages.alloc(1)
            return pages is not None
        if fault == "own twice":
            owners = [slot for slot in self.requests if cache.held[slot] > cache.shared[slot]]
            taken = [page for node in nodes for page in node.pages.tolist()]
            taken += [int(cache.table[slot, cache.held[slot] - 1]) for slot in owners]
            if not owners:
                return False
            slot = owners[pick % len(owners)]
            page = taken[pick % len(taken)]
            last = cache.held[slot] - 1
            if cache.table[slot, last] == page:
                return False
            cache.table[slot, last] = page
            return True
        if not nodes or isinstance(cache, ChunkCache):
            return False
        if fault == "lock":
            nodes[pick % len(nodes)].lock += 1
        else:
            cache.tree.evictable += 1
        return True

    # What is always true.

    @invariant()
    def books_are_in_order(self) -> None:
        """The ledger's own audit."""
        assert self.cache.check() == []

    @invariant()
    def pages_add_up(self) -> None:
        """Usage is exact."""
        usage = self.cache.usage()
        assert min(usage) >= 0 and sum(usage) == self.cache.num_pages
        assert self.cache.available() == usage.free + usage.cached
        assert usage.private == int((self.cache.held - self.cache.shared).sum())
        assert usage.cached + usage.locked == sum(len(node.pages) for node in self.nodes())

    @invariant()
    def rows_hold_their_tokens(self) -> None:
        """Every open slot reads what it or its prefix computed: nothing it needs was evicted or overwritten."""
        for slot, request in self.requests.items():
            for start in range(0, request.computed, self.page_size):
                stop = min(start + self.page_size, request.computed)
                content = self.memory[int(self.cache.table[slot, start // self.page_size])]
                assert (content.namespace, content.prefix) == (request.namespace, request.tokens[:stop])

    @invariant()
    def tree_holds_its_tokens(self) -> None:
        """Whatever can be matched holds what it says, and no failed step wrote it."""
        for (namespace, prefix), page in self.cached().items():
            content = self.memory[page]
            assert (content.namespace, content.prefix) == (namespace, prefix)


class RadixMachine(LedgerMachine):
    """The cache that shares."""

    @initialize(page_size=st.sampled_from([1, 2, 3]), policy=st.sampled_from(POLICIES))
    def build(self, page_size: int, policy: EvictionPolicy) -> None:
        """Choose a cache."""
        self.page_size = page_size
        self.cache = RadixCache(NUM_PAGES, page_size, NUM_SLOTS, WIDTH, policy)


class ChunkMachine(LedgerMachine):
    """The cache that does not share."""

    @initialize(page_size=st.sampled_from([1, 2, 3]))
    def build(self, page_size: int) -> None:
        """Choose a cache."""
        self.page_size = page_size
        self.cache = ChunkCache(NUM_PAGES, page_size, NUM_SLOTS, WIDTH)


TestRadixCache = RadixMachine.TestCase
TestRadixCache.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestChunkCache = ChunkMachine.TestCase
TestChunkCache.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


@pytest.mark.slow
def test_long_lives_of_the_radix_cache() -> None:
    run_state_machine_as_test(RadixMachine, settings=settings(max_examples=300, stateful_step_count=50, deadline=None))
