"""What the ledger costs: eviction from a large tree, matching a long prompt, reserving pages for a decode step.

Figures are processor time, garbage collection included, so that a busy machine does not change them.
"""

import statistics
from time import thread_time_ns

import numpy as np

from banyan.memory.ledger.cache import RadixCache
from banyan.memory.ledger.evict import EvictionPolicy
from banyan.memory.ledger.node import Namespace
from banyan.wire.base import I32

PAGE_SIZE = 16
NAMESPACE = Namespace("", "", 0)
SLOT = 1


def bench_evict(num_leaves: int = 100_000, eviction_policy: EvictionPolicy = "lru") -> list[float]:
    """Time eviction from a tree of `num_leaves` leaves of one page, half of them used again in random order.

    Returns microseconds per evicted node, one figure for every 16 nodes, the freeing of their pages included.
    """
    batch = 16
    cache = RadixCache(num_leaves, PAGE_SIZE, 1, 1, eviction_policy)
    random = np.random.default_rng(0)
    prompts = random.integers(0, 1 << 30, (num_leaves, PAGE_SIZE), np.int32)
    for prompt in prompts:
        _compute(cache, prompt)
    for index in random.permutation(num_leaves)[: num_leaves // 2].tolist():
        cache.open(SLOT, NAMESPACE, prompts[index], PAGE_SIZE)
        cache.close(SLOT, prompts[index], 0, 1)
    figures = []
    for _ in range(num_leaves // batch):
        start = thread_time_ns()
        cache.tree.evict(batch)
        figures.append((thread_time_ns() - start) / 1000 / batch)
    return figures


def bench_match(num_tokens: int = 4096, num_nodes: int = 16, rounds: int = 2000) -> list[float]:
    """Time finding a fully cached prompt that lies in `num_nodes` nodes of a tree; microseconds a match."""
    cache, prompt = _chain(num_tokens, num_nodes)
    figures = []
    for _ in range(rounds):
        start = thread_time_ns()
        found = cache.peek(NAMESPACE, prompt)
        figures.append((thread_time_ns() - start) / 1000)
        assert found == num_tokens
    return figures


def bench_open(num_tokens: int = 4096, num_nodes: int = 16, rounds: int = 2000) -> list[float]:
    """Time a lease of a fully cached prompt: match, lock, write the table row, close; microseconds a lease."""
    cache, prompt = _chain(num_tokens, num_nodes)
    figures = []
    for _ in range(rounds):
        start = thread_time_ns()
        cache.open(SLOT, NAMESPACE, prompt, num_tokens)
        cache.close(SLOT, prompt, num_tokens, 1)
        figures.append((thread_time_ns() - start) / 1000)
        cache.changes()
    return figures


def bench_reserve(num_slots: int = 4096, rounds: int = 500) -> list[float]:
    """Time the page side of a decode step: of all slots one in 16 needs a page; microseconds a step."""
    width = rounds // PAGE_SIZE + 2
    cache = RadixCache(num_slots * width, PAGE_SIZE, num_slots, width)
    slots = np.arange(1, num_slots + 1, dtype=np.int32)
    lengths = np.random.default_rng(0).integers(1, PAGE_SIZE + 1, num_slots).astype(np.int32)
    for slot in slots.tolist():
        cache.open(slot, NAMESPACE, lengths, 0)
    cache.reserve(slots, lengths)
    cache.changes()
    figures = []
    for _ in range(rounds):
        lengths += 1
        start = thread_time_ns()
        done = cache.reserve(slots, lengths)
        cache.changes()
        figures.append((thread_time_ns() - start) / 1000)
        assert done
    return figures


def _chain(num_tokens: int, num_nodes: int) -> tuple[RadixCache, I32]:
    """Build a tree in which one prompt was computed in `num_nodes` pieces."""
    num_pages = num_tokens // PAGE_SIZE
    cache = RadixCache(num_pages, PAGE_SIZE, 1, num_pages)
    prompt = np.random.default_rng(0).integers(0, 1 << 30, num_tokens, np.int32)
    cache.open(SLOT, NAMESPACE, prompt, 0)
    cache.reserve(np.array([SLOT], np.int32), np.array([num_tokens], np.int32))
    for piece in range(1, num_nodes + 1):
        cache.publish(SLOT, prompt, num_pages * piece // num_nodes * PAGE_SIZE, piece)
    cache.close(SLOT, prompt, num_tokens, num_nodes)
    return cache, prompt


def _compute(cache: RadixCache, prompt: I32) -> None:
    """Let one request come, be computed, and leave its pages in the tree."""
    cache.open(SLOT, NAMESPACE, prompt, 0)
    cache.reserve(np.array([SLOT], np.int32), np.array([len(prompt)], np.int32))
    cache.close(SLOT, prompt, len(prompt), 1)


def _say(name: str, figures: list[float]) -> None:
    ranked = sorted(figures)
    middle, high = statistics.median(ranked), ranked[int(len(ranked) * 0.99)]
    print(f"{name}: median {middle:.2f} us, 99 % below {high:.2f} us, worst {ranked[-1]:.2f} us")


def main() -> None:
    """Print every figure."""
    _say("evict a node of 100,000", bench_evict())
    _say("match 4,096 tokens in 1 node", bench_match(num_nodes=1))
    _say("match 4,096 tokens in 16 nodes", bench_match())
    _say("open and close 4,096 cached tokens", bench_open())
    _say("reserve for 4,096 slots", bench_reserve())


if __name__ == "__main__":
    main()
