"""run_scheduler_process: one replica: its memory, scheduler, executor, loop and sockets, put together and run."""

import gc
import importlib
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import msgspec

from banyan.config.resolve import Settled
from banyan.launch.child import ChildArgs, Life, run_child
from banyan.launch.faults import marked_faults
from banyan.launch.observers import FlightObserver
from banyan.memory.ledger.cache import PrefixCache, make_cache
from banyan.obs.flight import FlightRecord
from banyan.obs.trace import Tracer
from banyan.plan import Executor
from banyan.sched.limits import Limits
from banyan.sched.loop import EventLoop, Observer, Turn
from banyan.sched.record import Recorder, Setup
from banyan.sched.scheduler import Scheduler
from banyan.sched.select import LoopShape, select_loop
from banyan.wire.channel import PullChannel, PushChannel
from banyan.wire.codec import Codec
from banyan.wire.control import ControlReply, LoadReport, ToDetokenizer, ToScheduler
from banyan.worker.clock import RealClock
from banyan.worker.fake import FakeExecutor, Latency
from banyan.worker.oracle import Oracle

REPORT_S = 0.005  # between two reports of load
GC_THRESHOLD = 50_000  # objects made and not freed before the youngest are looked through

logger = logging.getLogger("banyan.launch.scheduler")


def run_scheduler_process(life: Life) -> None:
    """Serve one replica until the process ends."""
    args, settled = life.args, life.args.settled
    config, replica = settled.config, args.index
    shape = select_loop(config.disagg.mode, config.parallel.pp_size, settled.depth)
    setup = make_setup(settled, shape, replica)
    tracer = Tracer(Path(config.observe.trace) if config.observe.trace else None, f"scheduler{replica}")

    def notify(name: str, uid: int) -> None:
        tracer.event(name, uid, time.monotonic())

    scheduler = Scheduler(setup.limits, build_cache(setup), notify=notify if tracer.enabled else None)
    flight = FlightRecord(args.ports.record("scheduler", replica), settled.max_running_requests)
    observers: list[Observer] = [FlightObserver(flight, life.watchdog)]
    if config.observe.record:
        observers.append(Recorder(open_record(Path(config.observe.record), args), setup))
    inbox: PullChannel[ToScheduler] = PullChannel(args.ports.replica(replica), Codec(ToScheduler))
    outbox: PushChannel[ToDetokenizer] = PushChannel(args.ports.tokens, Codec(ToDetokenizer))

    def receive() -> Turn:
        return Turn(time.monotonic(), inbox.drain())

    def send(message: ToDetokenizer) -> None:
        if isinstance(message, ControlReply) and message.info is not None:
            info = msgspec.structs.replace(message.info, bad_frames=inbox.bad_frames)
            message = msgspec.structs.replace(message, info=info)
        outbox.send(message)

    loop = EventLoop(
        receive, scheduler, make_executor(settled), send, tuple(observers), check_every=config.debug.check_every
    )
    reporter = None
    if config.parallel.dp_size > 1:
        controller: PushChannel[LoadReport] = PushChannel(args.ports.requests, Codec(LoadReport))
        reporter = LoadReporter(scheduler, controller.send)
    logger.info("%s, %d tokens in pages of %d", shape.name, settled.max_total_tokens, settled.page_size)
    life.ready(
        max_total_num_tokens=setup.num_pages * setup.page_size,
        max_req_input_len=max_req_input_len(setup),
    )
    # What lives now lives to the end, and the prefix tree is large: looking through both again and again costs pauses.
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 50, 1000)
    idle_s = min(1.0, config.observe.watchdog_timeout_s / 4)  # an idle process, too, gives signs of life
    while True:
        worked = loop.turn()
        if reporter is not None:
            reporter.report(time.monotonic(), at_once=not worked)
        if not worked:
            inbox.wait(idle_s)


class LoadReporter:
    """Tells the controller how busy this replica is when that has changed, but not after every step."""

    def __init__(self, scheduler: Scheduler, send: Callable[[LoadReport], object]) -> None:
        self._scheduler = scheduler
        self._send = send
        self._last: LoadReport | None = None
        self._next_at = 0.0

    def report(self, now: float, *, at_once: bool) -> None:
        """Send the load if it is not what was sent last; `at_once` before a pause."""
        if now < self._next_at and not at_once:
            return
        load = self._scheduler.load()
        if load != self._last:
            self._send(load)
            self._last = load
            self._next_at = now + REPORT_S


def make_setup(settled: Settled, shape: LoopShape, replica: int) -> Setup:
    """Gather what a scheduler and its ledger are built from; a recording begins with it."""
    schedule, memory = settled.config.schedule, settled.config.memory
    limits = Limits(
        num_slots=settled.max_running_requests,
        context_length=settled.context_length,
        token_budget=settled.chunked_prefill_size,
        max_queued=schedule.max_queued_requests,
        depth=shape.depth,
        chained=shape.chained,
        policy=schedule.policy,
        conservativeness=schedule.conservativeness,
        stream_interval=schedule.stream_interval,
        queue_timeout_s=schedule.queue_timeout_s,
        vocab_size=settled.vocab_size,
        eos_ids=settled.eos_ids,
        seed=schedule.seed,
        replica=replica,
        retract_every=settled.config.debug.retract_every,
        whole_prompts=settled.card.needs_whole_prompts,
    )
    return Setup(
        limits=limits,
        cache=memory.cache,
        num_pages=settled.max_total_tokens // settled.page_size,
        page_size=settled.page_size,
        max_pages_per_slot=max_pages_per_slot(settled),
        eviction_policy=memory.eviction_policy,
    )


def build_cache(setup: Setup) -> PrefixCache:
    """Build the ledger of KV memory."""
    return make_cache(
        setup.cache,
        setup.num_pages,
        setup.page_size,
        setup.limits.num_slots,
        setup.max_pages_per_slot,
        setup.eviction_policy,
    )


def max_pages_per_slot(settled: Settled) -> int:
    """Count the pages that the longest request can hold."""
    return -(-settled.context_length // settled.page_size)


def max_req_input_len(setup: Setup) -> int:
    """Return the longest prompt that leaves room for one token of output."""
    return min(setup.limits.context_length, setup.num_pages * setup.page_size) - 1


def make_executor(settled: Settled) -> Executor:
    """Build what runs the steps of the configured model."""
    if settled.card.architecture is not None:
        # Named, not imported: the oracle needs no torch, and starts in a tenth of the time.
        load = importlib.import_module("banyan.worker.load")
        worker: Executor = load.make_worker(
            settled,
            num_pages=settled.max_total_tokens // settled.page_size,
            max_pages_per_slot=max_pages_per_slot(settled),
        )
        return worker
    debug = settled.config.debug
    executor = FakeExecutor(
        num_pages=settled.max_total_tokens // settled.page_size,
        page_size=settled.page_size,
        num_slots=settled.max_running_requests,
        max_pages_per_slot=max_pages_per_slot(settled),
        oracle=Oracle(),
        clock=RealClock(),
        latency=Latency(step_s=debug.oracle_step_ms / 1e3, token_s=debug.oracle_token_us / 1e6),
        stages=settled.config.parallel.pp_size,
    )
    if debug.oracle_faults:
        executor.faults = marked_faults()
    return executor


def open_record(folder: Path, args: ChildArgs) -> BinaryIO:
    """Open the file of a recording: for our eyes only, and unbuffered, as what precedes a crash matters most."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"scheduler{args.index}-{args.parent_pid}-{args.incarnation}.record"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    return os.fdopen(descriptor, "wb", buffering=0)


if __name__ == "__main__":
    run_child(run_scheduler_process)
