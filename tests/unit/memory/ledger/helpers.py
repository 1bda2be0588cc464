"""Short ways to make token arrays and to run a request through a cache."""

import numpy as np

from banyan.memory.ledger.cache import PrefixCache
from banyan.memory.ledger.node import Namespace
from banyan.wire.base import I32

SPACE = Namespace("", "", 0)


def ints(*values: int) -> I32:
    """Make an int32 array."""
    return np.array(values, np.int32)


def ramp(count: int, start: int = 0) -> I32:
    """Make `count` tokens that all differ."""
    return np.arange(start, start + count, dtype=np.int32)


def grow(cache: PrefixCache, slot: int, length: int) -> bool:
    """Reserve pages for one slot."""
    return cache.reserve(ints(slot), ints(length))


def serve(cache: PrefixCache, slot: int, tokens: I32, born: int = 1, namespace: Namespace = SPACE) -> int:
    """Let a request come, be computed, and go; return how much of it was cached."""
    cached = cache.open(slot, namespace, tokens, len(tokens))
    assert grow(cache, slot, len(tokens))
    cache.close(slot, tokens, len(tokens), born)
    return cached
