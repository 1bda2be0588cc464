"""Kill real processes under load and count what clients lost; writes benchmarks/results/faults.json.

The ledger of the client is the only judge. The restart counters must equal the kills: a restart that nobody asked for
is a failure too.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from banyan.config.load import from_options
from banyan.engine import Engine
from benchmarks.result import Row, measured, stamp, write
from benchmarks.streams import Ledger, mixed_asks, run_streams

EXPERIMENTS = {"F1": "scheduler 0", "F3": "detokenizer 0"}
STALL_TARGETS_MS = {"F1": 5000.0, "F3": 1000.0}
STEP_MS = 3.0
KILLED = "was killed by signal 9 (Killed)"
LIMIT_S = 60.0


@dataclass(slots=True)
class Tally:
    """What became of all streams of one experiment."""

    victim: str
    kills: int = 0
    streams: int = 0
    failed: int = 0
    repeated: int = 0
    missing: int = 0
    restarts: int = 0
    kv_held_pages: int = 0
    stalls_ms: list[float] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Tell whether nobody noticed more than a pause."""
        lost = self.failed + self.repeated + self.missing + self.kv_held_pages
        return lost == 0 and self.restarts == self.kills

    def add(self, ledgers: Sequence[Ledger], killed_at: float) -> None:
        """Add the streams of one kill."""
        self.kills += 1
        self.streams += len(ledgers)
        for ledger in ledgers:
            self.failed += ledger.failed
            self.repeated += ledger.repeated
            self.missing += ledger.missing
            self.findings += ledger.findings
            if ledger.arrivals and ledger.arrivals[0] < killed_at < ledger.arrivals[-1]:
                self.stalls_ms.append(1000 * ledger.silence_s(killed_at))

    def stall_ms(self, percent: float) -> float:
        """Return a percentile of the pauses that clients saw."""
        return float(np.percentile(self.stalls_ms, percent)) if self.stalls_ms else 0.0


def strike(engine: Engine, victim: str, ledgers: Sequence[Ledger], share: float) -> float:
    """Kill a process when a share of all tokens has come; return when."""
    total = sum(len(tokens) for ledger in ledgers for tokens in ledger.ask.tokens)
    deadline = time.monotonic() + LIMIT_S
    while sum(ledger.num_tokens() for ledger in ledgers) < share * total and time.monotonic() < deadline:
        time.sleep(0.002)
    killed_at = time.monotonic()
    os.kill(engine.pids[victim], signal.SIGKILL)
    return killed_at


def experiment(engine: Engine, victim: str, kills: int, streams: int, num_tokens: int, seed: int) -> Tally:
    """Kill one process again and again, each time under a fresh load and at another moment."""
    tally, random = Tally(victim), Random(seed)
    before, deaths_before = engine.restarts[victim], len(engine.deaths)
    for number in range(kills):
        ledgers = [Ledger(ask) for ask in mixed_asks(streams, num_tokens, random.getrandbits(32))]
        share = random.uniform(0.02, 0.9)
        killed_at = asyncio.run(_one_kill(engine, victim, ledgers, share))
        tally.add(ledgers, killed_at)
        print(f"\r{victim}: {number + 1} of {kills} kills, {tally.failed} failed", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    tally.restarts = engine.restarts[victim] - before
    tally.findings += [f"{name} {cause}" for name, cause in engine.deaths[deaths_before:] if cause != KILLED]
    tally.kv_held_pages = sum(replica.held_pages for replica in engine.get_server_info()["replicas"])
    return tally


async def _one_kill(engine: Engine, victim: str, ledgers: list[Ledger], share: float) -> float:
    killed_at = 0.0

    def during() -> None:
        nonlocal killed_at
        killed_at = strike(engine, victim, ledgers, share)

    try:
        async with asyncio.timeout(LIMIT_S):
            await run_streams(engine, ledgers, during)
    except TimeoutError:
        for ledger in ledgers:  # those that hang are failures like any other
            ledger.close()
    return killed_at


def rows(name: str, tally: Tally) -> list[Row]:
    """Make rows of a tally."""
    extra: dict[str, bool | int | float | str] = {
        "victim": tally.victim,
        "kills": tally.kills,
        "streams": tally.streams,
        "streams_live_at_kill": len(tally.stalls_ms),
        "restarts": tally.restarts,
        "kv_held_pages": tally.kv_held_pages,
    }
    counts = {"": tally.failed, "-repeated": tally.repeated, "-missing": tally.missing}
    return [
        *(measured(f"{name}{suffix}", "count", "lower", [n], target=0, extra=extra) for suffix, n in counts.items()),
        measured(f"{name}-stall-p50", "ms", "lower", [tally.stall_ms(50)], extra=extra),
        measured(f"{name}-stall-p99", "ms", "lower", [tally.stall_ms(99)], target=STALL_TARGETS_MS[name], extra=extra),
    ]


def table(tallies: dict[str, Tally]) -> str:
    """Lay the figures out for people."""
    head = (
        "",
        "victim",
        "kills",
        "restarts",
        "streams",
        "failed",
        "repeated",
        "missing",
        "p50 ms",
        "p99 ms",
        "KV held",
    )
    lines = [
        (
            name,
            tally.victim,
            *map(str, (tally.kills, tally.restarts, tally.streams, tally.failed, tally.repeated, tally.missing)),
            f"{tally.stall_ms(50):.0f}",
            f"{tally.stall_ms(99):.0f}",
            str(tally.kv_held_pages),
        )
        for name, tally in tallies.items()
    ]
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in (head, *lines)
    )


def run(kills: int, streams: int, num_tokens: int, seed: int) -> dict[str, Tally]:
    """Run all experiments on one engine."""
    options = {"log_level": "error", "debug.oracle_step_ms": STEP_MS, "recovery.budget": 1000}
    with Engine(config=from_options(options)) as engine:
        return {
            name: experiment(engine, victim, kills, streams, num_tokens, seed) for name, victim in EXPERIMENTS.items()
        }


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="kills of each process")
    parser.add_argument("--streams", type=int, default=32, help="streams in flight at each kill")
    parser.add_argument("--tokens", type=int, default=200, help="longest output")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.ERROR)  # every kill would be reported, on purpose
    tallies = run(options.kills, options.streams, options.tokens, options.seed)
    print(table(tallies))
    for name, tally in tallies.items():
        for finding in tally.findings[:10]:
            print(f"{name}: {finding}")
    print(write(stamp("faults", [row for name, tally in tallies.items() for row in rows(name, tally)])))
    return 0 if all(tally.passed for tally in tallies.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
