"""Limits: the settled numbers a scheduler works within."""

from typing import Literal

import msgspec

Policy = Literal["fcfs", "lpm", "dfs-weight", "lof", "random", "priority"]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a scheduler may do. Plain data, so that a recording can carry it."""

    num_slots: int
    context_length: int
    token_budget: int  # tokens one step may carry
    max_queued: int = 4096
    depth: int = 1  # launched steps that may await commit
    chained: bool = True  # may a request be in two of them?
    policy: Policy = "fcfs"
    conservativeness: float = 1.0
    stream_interval: int = 1
    quiet_interval: int = 64  # the same for requests that do not stream
    queue_timeout_s: float = 600.0
    vocab_size: int = 0
    eos_ids: tuple[int, ...] = ()
    seed: int = 0
    replica: int = 0
    whole_prompts: bool = False  # a prompt cannot be cut: each of its tokens sees all others
    retract_every: int = 0  # debugging: force a retraction every so many steps
