"""Orderings of the waiting queue: fcfs, lpm, dfs-weight, lof, random, priority. Orderings, not queues.

Most policies are a key that never changes while a request waits. lpm and dfs-weight depend on what is cached now; they
reorder a window at the head of the queue, whose own order is arrival.
"""

from collections.abc import Callable

from banyan.sched.limits import Policy
from banyan.sched.req import Req

QueueKey = tuple[int, int, int]

WINDOW = 128  # requests that a cache-aware policy looks at; a longer look costs more than it finds
_AGE_S = 10.0  # waiting so long outweighs any cached prefix
_MIX = 0x9E3779B97F4A7C15


def queue_key(policy: Policy, req: Req, seed: int) -> QueueKey:
    """Give a waiting request its place. Whoever has run already (retracted) goes before all others."""
    if req.retractions:
        return (0, -req.ask.priority if policy == "priority" else 0, req.number)
    match policy:
        case "lof":
            return (1, -req.max_new_tokens, req.number)
        case "priority":
            return (1, -req.ask.priority, req.number)
        case "random":
            return (1, ((req.uid ^ seed) * _MIX) & 0xFFFFFFFF, req.number)
        case _:
            return (1, 0, req.number)


def is_cache_aware(policy: Policy) -> bool:
    """Tell whether the order depends on the prefix cache."""
    return policy in ("lpm", "dfs-weight")


def cache_aware_order(policy: Policy, window: list[Req], cached: Callable[[Req], int], now: float) -> list[Req]:
    """Reorder the head of the queue by what is cached now."""
    lengths = {req.uid: cached(req) for req in window}
    if policy == "lpm":
        return sorted(window, key=lambda r: _longest_prefix_key(r, lengths[r.uid], now))
    # dfs-weight: requests under one cached prefix stay together, heavier groups first.
    groups: dict[tuple[int, bytes], list[Req]] = {}
    for req in window:
        length = lengths[req.uid]
        groups.setdefault((length, req.tokens[:length].tobytes() if length else b""), []).append(req)
    ordered = sorted(groups.items(), key=lambda g: (-_group_weight(g[1], now), -g[0][0], g[1][0].number))
    return [req for _, group in ordered for req in group]


def _longest_prefix_key(req: Req, cached: int, now: float) -> tuple[bool, float, int]:
    """Longest prefix first, but nobody waits for ever: old requests come before all others, by age."""
    aged = now - req.arrived_at >= _AGE_S or req.retractions > 0
    return (not aged, 0.0 if aged else -float(cached), req.number)


def _group_weight(group: list[Req], now: float) -> float:
    aged = any(now - req.arrived_at >= _AGE_S or req.retractions for req in group)
    return float("inf") if aged else float(len(group))
