"""Which event loop a server runs: the seed's eight names, each a depth, a role and whether steps are chained."""

from typing import Literal, NamedTuple

DisaggMode = Literal["null", "prefill", "decode"]


class LoopShape(NamedTuple):
    """One variant of the one event loop."""

    name: str
    depth: int  # launched steps that may await commit
    chained: bool  # may a request be in two of them?
    role: DisaggMode


def select_loop(mode: DisaggMode, pp_size: int, depth: int) -> LoopShape:
    """Choose the loop. A pipeline comes before overlap in every mode: its stages are what overlaps."""
    suffix = "" if mode == "null" else f"_disagg_{mode}"
    if pp_size > 1:
        return LoopShape(f"event_loop_pp{suffix}", max(pp_size, depth), False, mode)
    kind = "overlap" if depth > 1 else "normal"
    return LoopShape(f"event_loop_{kind}{suffix}", depth, True, mode)
