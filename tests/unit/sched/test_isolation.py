"""A step that raises costs its culprit, and nobody else, whatever the depth and wherever it raises."""

import math

import numpy as np
import pytest
from msgspec.structs import replace

from banyan.plan import Step
from banyan.sched.isolation import Isolation
from banyan.sched.req import Phase
from banyan.wire.request import SamplingParams
from banyan.worker.fake import Faults
from tests.fakes.world import SMALL, World, embed, ending_prompt, fails_with, generate, row_fails, words

CULPRIT = 50
ROOMY = replace(SMALL, num_pages=256, num_slots=8)
DEPTHS = pytest.mark.parametrize("depth", [1, 2, 4])
PLACES = pytest.mark.parametrize("place", ["forward", "sample", "wait"])


def plant(world: World, place: str, *culprits: int) -> None:
    """Let every step with a culprit in it raise, at one of the places where a step can."""
    failure = fails_with(world.executor, *culprits)
    places = {"forward": Faults(forward=failure), "sample": Faults(sample=failure), "wait": Faults(wait=failure)}
    world.executor.faults = places[place]


def assert_alone(world: World, *culprits: int) -> None:
    """The culprits ended with the step's error, everybody else has every token."""
    for uid in culprits:
        reason = world.end(uid).reason
        assert (reason.kind, reason.status) == ("error", 500)
        assert "planted" in reason.message
        assert world.tokens(uid) == world.expected(uid)[: len(world.tokens(uid))]
    world.assert_exact(*(uid for uid in world.asked if uid not in culprits))


def bound(suspects: int) -> int:
    return 2 + math.ceil(math.log2(suspects))


@DEPTHS
@PLACES
def test_a_newcomer_that_breaks_its_step_fails_alone(depth: int, place: str) -> None:
    world = World(replace(ROOMY, depth=depth))
    world.send(*(generate(uid, words(uid, 7), 30, stream=uid % 2 == 0) for uid in range(1, 7)))
    world.turn(6)
    plant(world, place, CULPRIT)
    world.send(generate(CULPRIT, words(CULPRIT, 9), 5))
    world.run()
    assert_alone(world, CULPRIT)
    assert len(world.trail.failures) <= bound(7)
    world.assert_clean()


@DEPTHS
@PLACES
def test_a_culprit_in_the_middle_of_a_batch_fails_alone(depth: int, place: str) -> None:
    world = World(replace(ROOMY, depth=depth))
    world.send(*(generate(uid, words(uid, 7), 30) for uid in (1, 2, 3, CULPRIT, 4, 5, 6)))
    world.turn(9)
    plant(world, place, CULPRIT)
    world.run()
    assert 0 < len(world.tokens(CULPRIT)) < 30
    assert_alone(world, CULPRIT)
    assert len(world.trail.failures) <= bound(7)
    world.assert_clean()


@DEPTHS
def test_a_pipeline_isolates_like_all_others(depth: int) -> None:
    world = World(replace(ROOMY, depth=depth, chained=False, stages=depth))
    world.send(*(generate(uid, words(uid, 7), 20) for uid in (1, 2, 3, CULPRIT, 4, 5)))
    world.turn(7)
    plant(world, "wait", CULPRIT)
    world.run()
    assert_alone(world, CULPRIT)
    world.assert_clean()


@DEPTHS
def test_two_culprits_are_both_found(depth: int) -> None:
    world = World(replace(ROOMY, depth=depth))
    world.send(*(generate(uid, words(uid, 7), 30) for uid in range(1, 8)))
    world.turn(9)
    plant(world, "wait", 2, 6)
    world.run()
    assert_alone(world, 2, 6)


@DEPTHS
def test_a_culprit_in_a_steady_stream_of_others_is_found(depth: int) -> None:
    """While a group is tried nobody new may enter beside it, or the culprit would never be alone."""
    world = World(replace(ROOMY, depth=depth))
    world.send(*(generate(uid, words(uid, 7), 40) for uid in range(1, 5)))
    world.turn(4)
    plant(world, "forward", CULPRIT)
    world.send(generate(CULPRIT, words(CULPRIT, 9), 5))
    for uid in range(100, 140):
        world.send(generate(uid, words(uid, 5), 9))
        world.turn(2)
    assert (CULPRIT, 0) in world.out.heard
    world.run()
    assert_alone(world, CULPRIT)
    assert len(world.trail.failures) <= bound(8)


@DEPTHS
def test_a_culprit_whose_second_chunk_breaks_is_found(depth: int) -> None:
    """A chunk that passes proves nothing: acquitted by it, the culprit would break the same step for ever."""
    world = World(replace(ROOMY, depth=depth, context_length=512, num_pages=512))
    world.send(*(generate(uid, words(uid, 7), 200) for uid in range(1, 7)))
    world.turn(5)

    def last_chunk(step: Step) -> str | None:
        uids = world.executor.uids(step).tolist()[: step.num_extend]
        ends = (step.extend_starts + step.extend_lengths).tolist()
        return "planted" if any(uid == CULPRIT and end > 30 for uid, end in zip(uids, ends, strict=True)) else None

    world.executor.faults = Faults(forward=last_chunk)
    world.send(generate(CULPRIT, words(CULPRIT, 40), 5))
    world.run()
    assert_alone(world, CULPRIT)
    assert len(world.trail.failures) <= bound(7)


@DEPTHS
def test_a_fault_without_a_culprit_costs_nobody(depth: int) -> None:
    world = World(replace(ROOMY, depth=depth))
    left = [3]

    def flaky(step: Step) -> str | None:
        if step.number > 8 and step.number % 7 == 0 and left[0]:
            left[0] -= 1
            return "the machine hiccups"
        return None

    world.executor.faults = Faults(wait=flaky)
    world.send(*(generate(uid, words(uid, 7), 30) for uid in range(1, 8)))
    world.run()
    assert left == [0]
    world.assert_exact()
    world.assert_clean()


@pytest.mark.parametrize("depth", [2, 4])
@pytest.mark.parametrize("others", [1, 4])
def test_a_request_that_ended_while_the_step_ran_is_past_blame(depth: int, others: int) -> None:
    """It may have been the culprit, so nobody is convicted for being alone with it; and no trial waits for it."""
    world = World(replace(ROOMY, depth=depth, token_budget=64))
    ending = SamplingParams(max_new_tokens=60, temperature=0.0)
    world.send(*(generate(uid, words(uid, 7), 20) for uid in range(1, others + 1)))
    world.send(generate(9, ending_prompt(6), sampling=ending))
    broken: list[int] = []

    def with_the_dead(step: Step) -> str | None:
        if not broken and (world.roster.columns.phase[step.slots()] == Phase.DONE).any():
            broken.append(step.number)
            return "once"
        return None

    world.executor.faults = Faults(wait=with_the_dead)
    world.run()
    assert broken
    world.assert_exact()
    world.assert_clean()


@DEPTHS
def test_an_embedding_can_be_the_culprit_and_the_bystander(depth: int) -> None:
    world = World(replace(ROOMY, depth=depth))
    plant(world, "wait", CULPRIT)
    world.send(embed(40, words(40, 30)), embed(CULPRIT, words(CULPRIT, 20)), embed(41, words(41, 3)))
    world.send(generate(1, words(1, 8), 12))
    world.run()
    world.assert_exact(1)
    assert world.end(CULPRIT).reason.kind == "error"
    for uid in (40, 41):
        vector = world.out.heard[uid, 0].vector
        assert vector is not None
        assert vector.any()
    world.assert_clean()


@DEPTHS
def test_prefixes_of_a_failed_step_are_not_shared(depth: int) -> None:
    """Its pages were published when it was planned; what they hold is unknown."""
    world = World(replace(ROOMY, depth=depth, token_budget=64))
    shared = words(9, 24)
    broken: list[int] = []

    def once(step: Step) -> str | None:
        if len(step.extend_tokens) and not broken:
            broken.append(step.number)
            return "once"
        return None

    world.executor.faults = Faults(wait=once)
    world.send(*(generate(uid, [*shared, uid], 6) for uid in range(1, 5)))
    world.run()
    world.assert_exact()
    world.assert_clean()


@DEPTHS
@pytest.mark.parametrize("after", [0, 12])
def test_a_row_that_fails_fails_alone(depth: int, after: int) -> None:
    world = World(replace(ROOMY, depth=depth))
    world.executor.faults = Faults(rows=row_fails(world.executor, CULPRIT, "logits are not finite", after))
    world.send(*(generate(uid, words(uid, 7), 20) for uid in (1, 2, CULPRIT, 3)))
    world.run()
    end = world.end(CULPRIT)
    assert (end.reason.kind, end.reason.status, end.reason.message) == ("error", 500, "logits are not finite")
    assert world.tokens(CULPRIT) == world.expected(CULPRIT)[: max(0, after - 6)]
    assert not world.trail.failures
    world.assert_exact(1, 2, 3)
    world.assert_clean()


def test_an_idle_tribunal_holds_nobody_back() -> None:
    isolation = Isolation()
    assert not isolation.active
    assert not isolation.holds_back(1)
    assert isolation.crashed({1}, {1}, complete=True) == {1}
    assert not isolation.holds_back(1)


def test_once_a_group_has_crashed_again_only_its_own_may_enter() -> None:
    isolation = Isolation()
    assert isolation.crashed({1, 2, 3, 4}, set(), complete=True) == set()
    held = [uid for uid in range(1, 6) if isolation.holds_back(uid)]
    assert len(held) == 2
    tried = {1, 2, 3, 4} - set(held)
    isolation.crashed(tried, set(), complete=True)
    assert isolation.holds_back(5)
    assert sum(not isolation.holds_back(uid) for uid in range(1, 6)) == 1


def test_a_new_token_clears_and_a_chunk_does_not() -> None:
    world = World(replace(ROOMY, token_budget=8))
    world.send(generate(1, words(1, 4), 9), generate(2, words(2, 30), 9))
    world.turn(2)
    isolation, slot = Isolation(), world.roster.requests[2].slot
    isolation.crashed({1, 2}, set(), complete=True)
    assert isolation.holds_back(1)
    row = np.asarray([slot], np.int32)
    isolation.progressed(Step(number=9, extend_slots=row, extend_samples=np.asarray([False])), world.roster)
    assert isolation.holds_back(1)
    isolation.progressed(Step(number=10, extend_slots=row, extend_samples=np.asarray([True])), world.roster)
    held = isolation.holds_back(1)
    assert not held


def test_who_is_gone_is_suspected_no_more() -> None:
    isolation = Isolation()
    isolation.crashed({1, 2}, set(), complete=True)
    for uid in (1, 2):
        isolation.ended(uid)
    assert not isolation.active


def test_alone_with_somebody_who_has_ended_a_crash_must_happen_twice() -> None:
    isolation = Isolation()
    assert isolation.crashed({1}, set(), complete=False) == set()
    assert isolation.active
    assert isolation.crashed({1}, set(), complete=True) == {1}
