"""EventLoop: one loop for every depth. The order of things, failures on the way, grammars, and what a turn costs."""

import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from banyan.memory.ledger.cache import make_cache
from banyan.plan import U32, Forward, Pending, Step, StepResult
from banyan.sched.limits import Limits
from banyan.sched.loop import EventLoop, Turn
from banyan.sched.scheduler import Scheduler
from banyan.wire.control import ControlReply, ControlReq, ToScheduler
from banyan.worker.fake import Faults
from tests.fakes.server import Server
from tests.fakes.world import SMALL, World, abort, fails_with, generate, words

DEPTHS = pytest.mark.parametrize("depth", [1, 2, 4])


class Diary:
    """An observer that writes down what happens, in order."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, int]] = []

    def turn(self, turn: Turn) -> None:
        """Write."""
        self.lines.append(("turn", len(turn.messages)))

    def launched(self, step: Step) -> None:
        """Write."""
        self.lines.append(("launched", step.number))

    def committed(self, step: Step, result: StepResult) -> None:
        """Write."""
        self.lines.append(("committed", step.number))

    def failed(self, step: Step, error: str) -> None:
        """Write."""
        self.lines.append(("failed", step.number))


def diary_of(depth: int, faults: Faults | None = None) -> list[tuple[str, int]]:
    """Run two requests and give the diary without its turns."""
    world = World(replace(SMALL, depth=depth))
    diary = Diary()
    server = Server(replace(SMALL, depth=depth), world.oracle, observers=(diary,))
    if faults is not None:
        server.executor.faults = faults
    server.inbox.extend([generate(1, words(1, 5), 12), generate(2, words(2, 5), 12)])
    server.run()
    assert server.out.tokens(1) == world.oracle.generate(words(1, 5), generate(1, [1], 12).sampling, 1)
    return [line for line in diary.lines if line[0] != "turn"]


# ---------------------------------------------------------------------- turns


def test_an_idle_turn_says_so() -> None:
    world = World()
    assert not world.turn()
    world.send(abort(1))
    assert world.turn()  # there was a message
    assert not world.turn()
    world.send(generate(1, words(1, 5), 3))
    assert world.turn()
    world.run()
    assert not world.turn()
    world.assert_exact()


def test_what_a_turn_brings_is_sent_in_that_turn() -> None:
    world = World()
    world.send(generate(1, words(1, 5), 3))
    for count in range(1, 4):
        world.turn()
        assert len(world.tokens(1)) == count


@DEPTHS
def test_depth_is_how_many_steps_await_their_commit(depth: int) -> None:
    outstanding, most = 0, 0
    for what, _ in diary_of(depth):
        outstanding += 1 if what == "launched" else -1
        most = max(most, outstanding)
    assert (most, outstanding) == (depth, 0)


@DEPTHS
def test_steps_are_launched_and_committed_in_order(depth: int) -> None:
    lines = diary_of(depth)
    for what in ("launched", "committed"):
        numbers = [number for kind, number in lines if kind == what]
        assert numbers == sorted(numbers)
    assert len(lines) == 2 * 12


def test_an_observer_is_told_of_every_turn() -> None:
    diary = Diary()
    server = Server(SMALL, World().oracle, observers=(diary,))
    server.inbox.append(generate(1, words(1, 5), 2))
    server.run()
    assert diary.lines[:3] == [("turn", 1), ("launched", 0), ("committed", 0)]
    assert diary.lines[-1] == ("turn", 0)


def test_overlap_hides_the_time_of_the_host() -> None:
    times = {}
    for depth in (1, 2):
        world = World(replace(SMALL, depth=depth))
        world.send(generate(1, words(1, 5), 40))
        world.run()
        times[depth] = world.clock.now()
    assert times[2] < times[1]
    assert times[2] == pytest.approx(40 * 0.010, rel=0.1)  # the device is never idle


def test_a_pipeline_keeps_its_stages_busy() -> None:
    times = {}
    for depth, chained in ((1, True), (4, False)):
        world = World(replace(SMALL, depth=depth, chained=chained, stages=4, num_pages=256))
        world.send(*(generate(uid, words(uid, 5), 40) for uid in range(1, 9)))
        world.run()
        times[depth] = world.clock.now()
    assert times[4] < times[1] * 1.5  # four times as many steps, each a quarter of the batch, four at a time


# ---------------------------------------------------------------------- failures


class Once:
    """Fails the first step from a number on, once."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.failed: list[int] = []

    def __call__(self, step: Step) -> str | None:
        if step.number >= self._number and not self.failed:
            self.failed.append(step.number)
            return "once"
        return None


@DEPTHS
@pytest.mark.parametrize("place", ["forward", "sample"])
def test_steps_launched_before_a_failed_one_are_committed_first(depth: int, place: str) -> None:
    once = Once(5)
    lines = diary_of(depth, Faults(forward=once) if place == "forward" else Faults(sample=once))
    at = lines.index(("failed", 5))
    assert {("committed", number) for number in range(5)} <= set(lines[:at])
    assert ("committed", 5) not in lines


@DEPTHS
def test_steps_launched_after_a_failed_one_never_happened(depth: int) -> None:
    lines = diary_of(depth, Faults(wait=Once(5)))
    at = lines.index(("failed", 5))
    void = {number for what, number in lines[:at] if what == "launched" and number >= 5}
    assert len(void) == depth
    assert not void & {number for what, number in lines if what == "committed"}


@pytest.mark.parametrize("depth", [2, 4])
def test_an_older_step_that_fails_too_takes_the_newer_one_with_it(depth: int) -> None:
    older, newer = Once(4), Once(4 + depth - 1)
    lines = diary_of(depth, Faults(wait=older, forward=newer))
    failures = [number for what, number in lines if what == "failed"]
    assert failures[0] == 4
    assert older.failed == [4]


@pytest.mark.parametrize("depth", [2, 4])
def test_a_step_that_fails_while_a_grammar_waits_for_it(depth: int) -> None:
    """The newer step is on the device already when the older one, whose token its mask needs, fails."""
    world = World(replace(SMALL, depth=depth))
    once = Once(5)
    world.executor.faults = Faults(wait=once)
    world.send(generate(1, words(1, 5), 20, grammar="parity"), generate(2, words(2, 5), 20))
    world.run()
    assert [step.number for step, _ in world.trail.failures] == once.failed == [5]
    world.assert_exact()
    world.assert_clean()


@DEPTHS
def test_failures_with_no_memory_to_spare(depth: int) -> None:
    world = World(replace(SMALL, depth=depth, num_pages=20, conservativeness=0.1))
    world.executor.faults = Faults(wait=fails_with(world.executor, 5))
    world.send(*(generate(uid, words(uid, 9), 30, grammar="parity" if uid % 3 == 0 else "") for uid in range(1, 9)))
    world.run()
    assert world.end(5).reason.kind == "error"
    world.assert_exact(*(uid for uid in world.asked if uid != 5))
    world.assert_clean()


# ---------------------------------------------------------------------- grammars


@DEPTHS
@pytest.mark.parametrize("chained", [True, False])
@pytest.mark.parametrize("retract_every", [0, 4])
def test_grammars_are_exact(depth: int, chained: bool, retract_every: int) -> None:
    shape = replace(SMALL, depth=depth, chained=chained, stages=1 if chained else depth, retract_every=retract_every)
    world = World(shape)
    for uid, grammar in enumerate(("parity", "", "digits:5", "parity", "digits:1"), start=1):
        world.send(generate(uid, words(uid, 5 + 7 * uid), 16, grammar=grammar))
    world.run()
    world.assert_exact()
    waits = any(step.needs_history for step in world.trail.steps)
    assert waits == (chained and depth > 1)
    world.assert_clean()


@DEPTHS
@pytest.mark.parametrize("grammar", ["parity", "digits:7"])
def test_grammars_resume_from_any_token(depth: int, grammar: str) -> None:
    alone = World()
    alone.send(generate(1, words(1, 9), 10, grammar=grammar))
    alone.run()
    for count in range(len(alone.tokens(1))):
        world = World(replace(SMALL, depth=depth))
        world.send(generate(1, words(1, 9), 10, grammar=grammar, epoch=1, committed=alone.tokens(1)[:count]))
        world.run()
        world.assert_exact()


# ---------------------------------------------------------------------- cost


class Parrot:
    """An executor that costs nothing: every row says the same token."""

    def forward(self, step: Step) -> Forward:
        """Take the step as its own forward pass."""
        return step

    def sample(self, forward: Forward, masks: U32 | None) -> Pending:
        """Answer at once."""
        assert isinstance(forward, Step)
        samples = np.concatenate([forward.extend_samples, np.ones(len(forward.decode_slots), np.bool_)])
        return Said(StepResult(np.where(samples, np.int32(7), np.int32(-1)).astype(np.int32)))

    def recover(self) -> None:
        """Forget nothing."""

    def control(self, request: ControlReq) -> ControlReply | None:
        """Do nothing."""
        return None


class Said:
    """A result that is there."""

    def __init__(self, result: StepResult) -> None:
        self._result = result

    def ready(self) -> bool:
        """It is."""
        return True

    def wait(self) -> StepResult:
        """Give it."""
        return self._result


def steady_opcodes(running: int, depth: int) -> int:
    """Count what the interpreter executes in one steady decode turn, Python code of this package only."""
    limits = Limits(num_slots=running, context_length=256, token_budget=4096, depth=depth, eos_ids=(256,))
    scheduler = Scheduler(limits, make_cache("radix", running * 16, 16, running, 16))
    inbox: list[ToScheduler] = [generate(uid, [uid % 250, uid // 250, 3, 4], 200) for uid in range(1, running + 1)]

    def receive() -> Turn:
        messages = list(inbox)
        inbox.clear()
        return Turn(0.0, messages)

    loop = EventLoop(receive, scheduler, Parrot(), lambda _: None)
    for _ in range(6):
        loop.turn()
    assert len(scheduler.roster.running) == running
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        if event == "opcode" and "/banyan/" in frame.f_code.co_filename:
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        loop.turn()
    finally:
        sys.settrace(before)
    assert not any(scheduler.roster.columns.known[1:] % 16 == 0)  # no page was due: a steady turn
    return count


@pytest.mark.parametrize("depth", [1, 2])
def test_a_steady_turn_executes_the_same_code_for_8_and_for_512_requests(depth: int) -> None:
    """No Python loop over running rows, however it is written."""
    few = steady_opcodes(8, depth)
    assert 100 < few == steady_opcodes(512, depth)
