"""What scheduling costs: one decode turn (plan, commit, pack outputs), without any device; `--profile` shows where.

Writes benchmarks/results/sched.json. Figures are processor time, so that a busy machine does not change them.
"""

import argparse
import cProfile
import pstats
import statistics
from time import thread_time_ns

import numpy as np

from banyan.memory.ledger.cache import RadixCache
from banyan.plan import Step, StepResult
from banyan.sched.limits import Limits
from banyan.sched.scheduler import Scheduler
from banyan.wire.base import I32, make_uid
from banyan.wire.request import SamplingParams, TokenizedGenerateReqInput
from benchmarks.ledger import bench_evict, bench_match
from benchmarks.result import Row, measured, stamp, write

PAGE_SIZE = 16
PROMPT = 64
OUTPUT = 448
SIZES = (64, 256, 1024, 4096)
RUNS = 5
TURNS = 200
EOS = 256


class Bench:
    """A scheduler with `running` requests under way. The device is a function that knows every token at once."""

    def __init__(self, running: int) -> None:
        pages = -(-(PROMPT + OUTPUT) // PAGE_SIZE)
        limits = Limits(
            num_slots=running,
            context_length=PROMPT + OUTPUT,
            token_budget=1 << 20,
            vocab_size=EOS + 3,
            eos_ids=(EOS,),
        )
        self.scheduler = Scheduler(limits, RadixCache(running * pages, PAGE_SIZE, running, pages))
        self._rng = np.random.default_rng(0)
        self._arrived = 0
        for _ in range(running):
            self.arrive()
        while len(self.scheduler.roster.running) < running:
            self.turn()

    def arrive(self) -> None:
        """Let one more request come, with a prompt of its own."""
        self._arrived += 1
        prompt = self._rng.integers(0, 256, PROMPT, np.int32)
        self.scheduler.receive(
            TokenizedGenerateReqInput(
                uid=make_uid(0, self._arrived),
                rid=f"r{self._arrived}",
                tokens=prompt.tobytes(),
                sampling=SamplingParams(max_new_tokens=OUTPUT),
                seed=self._arrived,
                stream=True,
            ),
            0.0,
        )

    def turn(self, ends: int = 0) -> float:
        """Take a turn in which `ends` requests end. Returns the milliseconds that the scheduler took."""
        start = thread_time_ns()
        step = self.scheduler.plan(0.0)
        planned = thread_time_ns()
        assert step is not None
        result = self._device(step, ends)
        launched = thread_time_ns()
        self.scheduler.commit(step, result, 0.0)
        messages = self.scheduler.outbox()
        spent = planned - start + thread_time_ns() - launched
        assert len(messages) == 1
        return spent / 1e6

    def _device(self, step: Step, ends: int) -> StepResult:
        tokens: I32 = self._rng.integers(0, 256, step.num_rows, np.int32)
        if ends:
            tokens[-ends:] = EOS
        return StepResult(tokens)


def bench_turn(running: int, turns: int = TURNS) -> float:
    """Return the median milliseconds of a turn in which every request gets a token and nothing else happens."""
    bench = Bench(running)
    return statistics.median(bench.turn() for _ in range(turns))


def bench_churn(running: int, turns: int = TURNS) -> float:
    """Return the same for turns in each of which one request ends and another begins."""
    bench = Bench(running)
    times = []
    for _ in range(turns):
        bench.arrive()
        times.append(bench.turn(ends=1))
    return statistics.median(times)


def rows(runs: int = RUNS, turns: int = TURNS) -> list[Row]:
    """Measure everything."""
    turn_ms = {size: [bench_turn(size, turns) for _ in range(runs)] for size in SIZES}
    growth = [large / small for small, large in zip(turn_ms[SIZES[0]], turn_ms[SIZES[-1]], strict=True)]
    evict_us = [statistics.median(bench_evict()) for _ in range(3)]
    match_us = [statistics.median(bench_match()) for _ in range(3)]
    churn_ms = [bench_churn(1024, turns) for _ in range(runs)]
    targets = {1024: 1.0}
    return [
        *(
            measured(f"turn_{size}_ms", "ms", "lower", times, target=targets.get(size), extra={"running": size})
            for size, times in turn_ms.items()
        ),
        measured("turn_churn_1024_ms", "ms", "lower", churn_ms, extra={"running": 1024}),
        measured("turn_growth_64_to_4096", "ratio", "lower", growth, target=12.0),
        measured("evict_us_per_node", "us", "lower", evict_us, target=20.0, extra={"leaves": 100_000}),
        measured("match_4096_us", "us", "lower", match_us, target=150.0),
    ]


def profile(running: int = 1024, turns: int = TURNS) -> None:
    """Print where the time of a turn goes."""
    bench = Bench(running)
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(turns):
        bench.turn()
    profiler.disable()
    pstats.Stats(profiler).sort_stats("cumulative").print_stats(25)


def main() -> None:
    """Measure, print and write; or profile."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sched", description=__doc__)
    parser.add_argument("--profile", action="store_true", help="show where a turn with 1,024 requests spends its time")
    if parser.parse_args().profile:
        profile()
        return
    result = stamp("sched", rows())
    for row in result.rows:
        target = "" if row.target is None else f"  (target {row.target:g})"
        print(f"{row.workload:24} {row.value:10.3f} {row.figure}{target}")
    print(write(result))


if __name__ == "__main__":
    main()
