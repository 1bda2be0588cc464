"""Cases of test_loops.py: a server or a pair, a workload, something that disturbs it, and what must hold afterwards."""

import random
from dataclasses import dataclass
from itertools import product
from typing import Literal

import msgspec
import numpy as np

from banyan.sched.limits import Policy
from banyan.wire.control import ToScheduler
from banyan.wire.request import AbortReq, TokenizedGenerateReqInput
from banyan.worker.fake import Failure, FakeExecutor, Faults
from banyan.worker.oracle import Oracle
from tests.fakes.collector import Collector
from tests.fakes.pair import Pair
from tests.fakes.server import Server, Shape
from tests.fakes.workload import Mix, expected, expected_logprobs, workload

Disturbance = Literal["none", "aborts", "resumes", "failures", "retractions"]
Cache = Literal["radix", "chunk"]

LOOPS = {  # name -> depth, chained, stages
    "normal": (1, True, 1),
    "overlap": (2, True, 1),
    "pipeline": (4, False, 4),
    "deep": (4, True, 1),
}
CACHES: tuple[Cache, ...] = ("radix", "chunk")
PAGES = (1, 4, 16)
CHUNKS = (8, 64)
POLICIES: tuple[Policy, ...] = ("fcfs", "lpm", "dfs-weight", "lof", "random", "priority")
DISTURBANCES: tuple[Disturbance, ...] = ("none", "aborts", "resumes", "failures", "retractions")
LONGEST = 64  # tokens of the longest request
POOLS = (1.0, 1.6, 10.0)  # KV memory as a multiple of that
ORACLE = Oracle(eos_chance=1 / 24)


@dataclass(frozen=True, slots=True)
class Case:
    """One run. With `second` it is a pair: that loop decodes what the first has prefilled."""

    loop: str
    cache: Cache
    page_size: int
    chunk: int
    policy: Policy
    grammar: bool
    disturbance: Disturbance
    pool: float
    seed: int
    second: str = ""


def unified_cases() -> list[Case]:
    """Give half of the whole product, drawn at random."""
    axes = product(LOOPS, CACHES, PAGES, CHUNKS, POLICIES, (False, True), DISTURBANCES, POOLS)
    cases = [Case(*values, seed=seed) for seed, values in enumerate(axes)]
    return random.Random(1).sample(cases, len(cases) // 2)


def pair_cases() -> list[Case]:
    """Give every pair of loops with everything that could matter to the hand-over."""
    policies: tuple[Policy, ...] = ("fcfs", "priority")
    axes = product(LOOPS, CACHES, PAGES, CHUNKS, policies, (False, True), DISTURBANCES, POOLS)
    return [
        Case(*values, seed=seed, second=second)
        for seed, (values, second) in enumerate(product(axes, LOOPS))
        if seed % 7 == 0  # coprime to every axis: all pairs of values are left
    ]


def run(case: Case) -> int:
    """Run one case and check it. Returns the number of retractions."""
    rng = random.Random(case.seed)
    requests = workload(case.seed, Mix(requests=10, grammar=0.4 if case.grammar else 0.0, logprobs=0.1))
    driver = _Driver(case, rng)
    waiting: list[ToScheduler] = list(requests)
    for _ in range(30_000):
        while waiting and rng.random() < 0.6:
            driver.send(waiting.pop(0))
        if case.disturbance in ("aborts", "resumes") and rng.random() < 0.1:
            driver.disturb(rng.choice(requests))
        if not driver.turn() and not waiting:
            break
    else:
        raise AssertionError("still busy")
    for request in requests:
        driver.check(request)
    assert driver.leaks() == []
    return driver.retractions


class _Driver:
    """A server or a pair, and what has been done to its requests."""

    def __init__(self, case: Case, rng: random.Random) -> None:
        self._case = case
        self._epochs: dict[int, int] = {}  # uid -> newest epoch
        self._committed: dict[int, list[int]] = {}  # uid -> tokens that the newest epoch began with
        self._aborted: set[int] = set()
        self._server: Server | Pair
        if case.second:
            losses = random.Random(case.seed)
            fails = case.disturbance == "failures"
            self._server = Pair(
                _shape(case, case.loop),
                _shape(case, case.second),
                ORACLE,
                polls=rng.randint(0, 6),
                fails=lambda _: fails and losses.random() < 0.3,
            )
            self._servers = [self._server.prefill, self._server.decode]
        else:
            self._server = Server(_shape(case, case.loop), ORACLE)
            self._servers = [self._server]
        if case.disturbance == "failures":
            for server in self._servers:
                _plant(server.executor, rng)

    @property
    def out(self) -> Collector:
        return self._servers[-1].out

    @property
    def retractions(self) -> int:
        return sum(server.scheduler.roster.retractions for server in self._servers)

    def send(self, message: ToScheduler) -> None:
        for server in self._servers:
            server.inbox.append(message)

    def turn(self) -> bool:
        return self._server.turn()

    def leaks(self) -> list[str]:
        return self._server.leaks()

    def disturb(self, request: TokenizedGenerateReqInput) -> None:
        """Abort a request, or let it begin again behind what has been heard of it."""
        uid, epoch = request.uid, self._epochs.get(request.uid, 0)
        if uid in self._aborted or self.out.reason(uid, epoch) is not None:
            return
        if self._case.disturbance == "aborts":
            self._aborted.add(uid)
            self.send(_abort(uid, epoch + 1, quiet=False))
            return
        committed = self._committed.get(uid, []) + self.out.tokens(uid, epoch)
        self._epochs[uid], self._committed[uid] = epoch + 1, committed
        self.send(_abort(uid, epoch + 1, quiet=True))
        data = np.array(committed, np.int32).tobytes()
        self.send(msgspec.structs.replace(request, epoch=epoch + 1, committed=data))

    def check(self, request: TokenizedGenerateReqInput) -> None:
        """Compare a request with the oracle."""
        uid, epoch = request.uid, self._epochs.get(request.uid, 0)
        whole = expected(request, ORACLE)
        got = self._committed.get(uid, []) + self.out.tokens(uid, epoch)
        reason = self.out.reason(uid, epoch)
        if uid in self._aborted and (reason is None or reason.kind == "abort"):
            assert got == whole[: len(got)]
            return
        assert reason is not None, f"request {uid} never ended"
        if self._case.disturbance == "failures" and reason.kind == "error":
            assert "planted" in reason.message  # it was alone in a step that failed
            assert got == whole[: len(got)]
            return
        assert reason.kind in ("stop", "length"), reason
        assert got == whole
        if request.logprobs is not None:
            prompt, output = expected_logprobs(request, whole, ORACLE)
            heard = self.out.heard[uid, epoch]
            assert heard.logprobs == output[heard.start :]
            assert heard.prompt_logprobs == prompt


def _abort(uid: int, below: int, *, quiet: bool) -> AbortReq:
    uids, epochs = np.array([uid], np.int64), np.array([below], np.int32)
    return AbortReq(uids=uids.tobytes(), below=epochs.tobytes(), quiet=quiet)


def _shape(case: Case, loop: str) -> Shape:
    depth, chained, stages = LOOPS[loop]
    return Shape(
        depth=depth,
        chained=chained,
        stages=stages,
        cache=case.cache,
        page_size=case.page_size,
        num_pages=int(case.pool * LONGEST / case.page_size),
        token_budget=case.chunk,
        policy=case.policy,
        retract_every=3 if case.disturbance == "retractions" else 0,
    )


def _plant(executor: FakeExecutor, rng: random.Random) -> None:
    """Let a few steps fail, at a random place each, and a few rows alone."""
    steps = {rng.randrange(60): rng.choice(["forward", "sample", "wait", "row"]) for _ in range(rng.randint(1, 3))}

    def at(place: str) -> Failure:
        return lambda step: "planted" if steps.get(step.number) == place else None

    executor.faults = Faults(
        forward=at("forward"),
        sample=at("sample"),
        wait=at("wait"),
        rows=lambda step: {0: "planted"} if steps.get(step.number) == "row" else {},
    )
