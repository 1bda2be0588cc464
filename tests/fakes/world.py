"""World: a Server for unit tests of the scheduler: requests in a few words, every step kept, exactness in one call."""

import random
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from banyan.plan import Step, StepResult
from banyan.sched.check import findings
from banyan.sched.loop import Turn
from banyan.wire.base import i32
from banyan.wire.control import ToScheduler
from banyan.wire.output import Finished
from banyan.wire.request import (
    AbortReq,
    GrammarSpec,
    LogprobSpec,
    SamplingParams,
    SessionRef,
    TokenizedEmbeddingReqInput,
    TokenizedGenerateReqInput,
)
from banyan.worker.fake import Failure, FakeExecutor
from banyan.worker.oracle import Oracle
from tests.fakes.server import Server, Shape
from tests.fakes.workload import expected

SMALL = Shape(num_slots=8, num_pages=64, page_size=4, token_budget=16, context_length=256)


def words(seed: int, count: int) -> list[int]:
    """Make a prompt of random bytes."""
    rng = random.Random(seed)
    return [rng.randrange(256) for _ in range(count)]


def ending_prompt(length: int) -> list[int]:
    """Find a prompt that the oracle answers greedily with exactly so many tokens, the last being end-of-text."""
    oracle, sampling = Oracle(), SamplingParams(max_new_tokens=100, temperature=0.0)
    return next(
        prompt for seed in range(10_000) if len(oracle.generate(prompt := words(seed, 5), sampling, 0)) == length
    )


def column(values: Iterable[int]) -> bytes:
    """Pack an int32 column."""
    return np.array(list(values), np.int32).tobytes()


def generate(
    uid: int,
    prompt: Iterable[int],
    max_new: int = 8,
    *,
    epoch: int = 0,
    committed: Iterable[int] = (),
    sampling: SamplingParams | None = None,
    grammar: str = "",
    stream: bool = True,
    logprobs: LogprobSpec | None = None,
    hidden_states: bool = False,
    lora: str = "",
    salt: str = "",
    priority: int = 0,
    session: str = "",
    queue_timeout_s: float | None = None,
) -> TokenizedGenerateReqInput:
    """Make a request. Unless `sampling` says otherwise it is greedy and does not end before `max_new` tokens."""
    spec = GrammarSpec(kind="regex", source=grammar) if grammar else None
    plain = SamplingParams(max_new_tokens=max_new, temperature=0.0, ignore_eos=True, grammar=spec)
    return TokenizedGenerateReqInput(
        uid=uid,
        rid=f"r{uid}",
        epoch=epoch,
        tokens=column(prompt),
        committed=column(committed),
        sampling=sampling or plain,
        seed=uid,
        stream=stream,
        logprobs=logprobs,
        return_hidden_states=hidden_states,
        lora=lora,
        salt=salt,
        priority=priority,
        session=SessionRef(id=session) if session else None,
        queue_timeout_s=queue_timeout_s,
    )


def embed(uid: int, prompt: Iterable[int], *, epoch: int = 0) -> TokenizedEmbeddingReqInput:
    """Make an embedding request."""
    return TokenizedEmbeddingReqInput(uid=uid, rid=f"e{uid}", epoch=epoch, tokens=column(prompt))


def abort(*uids: int, below: int = 1, quiet: bool = False) -> AbortReq:
    """Abort requests in incarnations below an epoch."""
    return AbortReq(uids=np.array(uids, np.int64).tobytes(), below=column([below] * len(uids)), quiet=quiet)


class Trail:
    """An observer that keeps every step and what became of it."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.results: list[tuple[Step, StepResult]] = []
        self.failures: list[tuple[Step, str]] = []

    def turn(self, turn: Turn) -> None:
        """Keep nothing: steps and results tell more."""

    def launched(self, step: Step) -> None:
        """Keep it."""
        self.steps.append(step)

    def committed(self, step: Step, result: StepResult) -> None:
        """Keep it."""
        self.results.append((step, result))

    def failed(self, step: Step, error: str) -> None:
        """Keep it."""
        self.failures.append((step, error))


class World:
    """One replica on virtual time. The whole state is checked as it runs, and the device must never complain."""

    def __init__(self, shape: Shape = SMALL) -> None:
        self.oracle = Oracle()
        self.trail = Trail()
        self.server = Server(shape, self.oracle, observers=(self.trail,))
        self.scheduler = self.server.scheduler
        self.roster = self.scheduler.roster
        self.cache = self.scheduler.cache
        self.executor = self.server.executor
        self.clock = self.server.clock
        self.out = self.server.out
        self.asked: dict[int, TokenizedGenerateReqInput] = {}  # uid -> its newest incarnation
        self._turns = 0

    def send(self, *messages: ToScheduler) -> None:
        """Send messages; the next turn takes them all."""
        for message in messages:
            if isinstance(message, TokenizedGenerateReqInput):
                self.asked[message.uid] = message
            self.server.inbox.append(message)

    def turn(self, count: int = 1) -> bool:
        """Take turns. False: there was nothing to do in the last one."""
        busy = False
        for _ in range(count):
            busy = self.server.loop.turn()
            self._turns += 1
            if self._turns < 50 or self._turns % 8 == 0 or not busy:  # a full audit costs as much as a turn
                self.check()
        return busy

    def check(self) -> None:
        """Assert that every invariant holds now."""
        assert findings(self.scheduler) == []
        assert self.executor.faults_seen == []

    def run(self, limit: int = 5_000) -> None:
        """Take turns until there is nothing to do."""
        for _ in range(limit):
            if not self.turn():
                return
        raise AssertionError(f"still busy after {limit} turns")

    def end(self, uid: int) -> Finished:
        """Tell how the newest incarnation of a request ended."""
        epoch = self.asked[uid].epoch if uid in self.asked else 0
        finished = self.out.heard[uid, epoch].finished
        assert finished is not None, f"request {uid} has not ended"
        return finished

    def tokens(self, uid: int) -> list[int]:
        """Give all output of a request: what was committed before, then what was heard."""
        ask = self.asked[uid]
        return [*i32(ask.committed).tolist(), *self.out.tokens(uid, ask.epoch)]

    def expected(self, uid: int) -> list[int]:
        """Give what the request must give, alone or in company."""
        return expected(self.asked[uid], self.oracle)

    def assert_exact(self, *uids: int) -> None:
        """Assert that requests (none named: all) have ended well, with exactly the tokens they give when alone."""
        for uid in uids or self.asked:
            assert self.tokens(uid) == self.expected(uid), f"request {uid}"
            assert self.end(uid).reason.kind in ("stop", "length"), f"request {uid}"

    def assert_clean(self) -> None:
        """Assert that all memory and every slot came back. Forgets the cache."""
        assert self.server.leaks() == []

    def extend_tokens(self) -> int:
        """Count the prompt tokens computed so far."""
        return sum(len(step.extend_tokens) for step in self.trail.steps)


def fails_with(executor: FakeExecutor, *culprits: int) -> Failure:
    """Plan a fault for every step that has one of these requests in it."""

    def failure(step: Step) -> str | None:
        return "planted" if not set(culprits).isdisjoint(executor.uids(step).tolist()) else None

    return failure


def row_fails(executor: FakeExecutor, uid: int, reason: str, after: int = 0) -> Callable[[Step], Mapping[int, str]]:
    """Plan a fault of the rows of one request, at positions from `after` on."""

    def failure(step: Step) -> Mapping[int, str]:
        starts = np.concatenate([step.extend_starts, step.decode_positions]).tolist()
        rows = enumerate(zip(executor.uids(step).tolist(), starts, strict=True))
        return {row: reason for row, (owner, start) in rows if owner == uid and start >= after}

    return failure
