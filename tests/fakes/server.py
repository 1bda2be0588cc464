"""Server: a scheduler with its event loop on the fake device, driven turn by turn."""

from collections import deque
from collections.abc import Callable
from typing import Literal

import msgspec

from banyan.memory.ledger.cache import make_cache
from banyan.sched.check import findings
from banyan.sched.limits import Limits, Policy
from banyan.sched.loop import EventLoop, Observer, Turn
from banyan.sched.scheduler import Scheduler
from banyan.wire.control import ToDetokenizer, ToScheduler
from banyan.worker.clock import VirtualClock
from banyan.worker.fake import FakeExecutor, Latency
from banyan.worker.oracle import EOS, VOCAB_SIZE, Oracle
from tests.fakes.collector import Collector
from tests.fakes.grammar import make_grammar

LATENCY = Latency(step_s=0.010, token_s=0.0001, host_s=0.001)


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that may differ between two servers that must give the same tokens."""

    depth: int = 1
    chained: bool = True
    stages: int = 1
    cache: Literal["radix", "chunk"] = "radix"
    page_size: int = 4
    num_pages: int = 256
    num_slots: int = 8
    token_budget: int = 32
    context_length: int = 256
    policy: Policy = "fcfs"
    retract_every: int = 0
    replica: int = 0
    stream_interval: int = 1
    quiet_interval: int = 8
    max_queued: int = 4096
    queue_timeout_s: float = 600.0
    conservativeness: float = 1.0

    def limits(self) -> Limits:
        """Give the scheduler's share."""
        return Limits(
            num_slots=self.num_slots,
            context_length=self.context_length,
            token_budget=self.token_budget,
            depth=self.depth,
            chained=self.chained,
            policy=self.policy,
            stream_interval=self.stream_interval,
            quiet_interval=self.quiet_interval,
            max_queued=self.max_queued,
            queue_timeout_s=self.queue_timeout_s,
            conservativeness=self.conservativeness,
            vocab_size=VOCAB_SIZE,
            eos_ids=(EOS,),
            retract_every=self.retract_every,
            replica=self.replica,
        )


class Server:
    """One replica. Messages go in through `inbox`, one turn takes them all."""

    def __init__(
        self,
        shape: Shape,
        oracle: Oracle,
        clock: VirtualClock | None = None,
        observers: tuple[Observer, ...] = (),
        latency: Latency = LATENCY,
        send: Callable[[ToDetokenizer], None] | None = None,
    ) -> None:
        self.shape = shape
        self.clock = clock or VirtualClock()
        max_pages = -(-shape.context_length // shape.page_size)
        self.executor = FakeExecutor(
            num_pages=shape.num_pages,
            page_size=shape.page_size,
            num_slots=shape.num_slots,
            max_pages_per_slot=max_pages,
            oracle=oracle,
            clock=self.clock,
            latency=latency,
            stages=shape.stages,
        )
        cache = make_cache(shape.cache, shape.num_pages, shape.page_size, shape.num_slots, max_pages)
        self.scheduler = Scheduler(shape.limits(), cache, make_grammar)
        self.inbox: deque[ToScheduler] = deque()
        self.out = Collector()
        self.loop = EventLoop(self._turn, self.scheduler, self.executor, send or self.out.take, observers)

    def _turn(self) -> Turn:
        messages = list(self.inbox)
        self.inbox.clear()
        return Turn(self.clock.now(), messages)

    def turn(self) -> bool:
        """Take one turn. False: there was nothing to do."""
        return self.loop.turn()

    def run(self, limit: int = 20_000) -> None:
        """Take turns until there is nothing to do."""
        for _ in range(limit):
            if not self.loop.turn():
                return
        raise AssertionError(f"still busy after {limit} turns")

    def leaks(self) -> list[str]:
        """Say what is not as it was before the first request, in words."""
        scheduler, cache = self.scheduler, self.scheduler.cache
        found = [*self.executor.faults_seen, *findings(scheduler)]
        cache.flush()
        usage = cache.usage()
        if usage.free != cache.num_pages:
            found.append(f"pages are not all free: {usage}")
        if scheduler.roster.slots.num_free != self.shape.num_slots:
            found.append(f"{scheduler.roster.slots.num_free} of {self.shape.num_slots} slots are free")
        if scheduler.roster.requests or len(scheduler.roster.queue):
            found.append("requests are left")
        if scheduler.leaks_healed:
            found.append("the idle check had to heal")
        return found
