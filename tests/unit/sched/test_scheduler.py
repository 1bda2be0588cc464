"""Scheduler: what it refuses, what it reports, and what its steps say."""

import numpy as np
import pytest
from msgspec.structs import replace

from banyan.memory.ledger.cache import RadixCache
from banyan.sched.limits import Limits
from banyan.sched.scheduler import Scheduler
from banyan.wire.base import i32
from banyan.wire.control import ProbeReply
from banyan.wire.output import BatchTokenIDOut
from banyan.wire.request import ProbeReq
from banyan.worker.oracle import EOS
from tests.fakes.server import Shape
from tests.fakes.world import SMALL, World, abort, column, embed, generate, words

DEPTHS = pytest.mark.parametrize("depth", [1, 2, 4])


# ---------------------------------------------------------------------- refusals


def refusal(world: World, uid: int = 1) -> tuple[str, int]:
    world.run()
    reason = world.end(uid).reason
    assert reason.kind == "error"
    world.assert_clean()
    return reason.message, reason.status


@pytest.mark.parametrize(
    ("shape", "prompt", "output", "needs", "fits"),
    [
        (SMALL, 200, 57, 257, 256),  # the context
        (replace(SMALL, num_pages=16), 60, 6, 66, 65),  # the memory, and a last token that is never fed
        (replace(SMALL, num_pages=16), 65, 0, 66, 65),
        (SMALL, 10, 2**31 - 1, 2**31 + 9, 256),
    ],
)
def test_what_can_never_fit_is_refused_with_both_numbers(
    shape: Shape, prompt: int, output: int, needs: int, fits: int
) -> None:
    world = World(shape)
    world.send(generate(1, words(1, prompt), output))
    message, status = refusal(world)
    assert status == 400
    assert f"needs {needs} tokens (prompt {prompt}, " in message
    assert f"at most {fits} fit" in message


def test_an_embedding_that_can_never_fit_is_refused() -> None:
    world = World(replace(SMALL, num_pages=16))
    world.send(embed(1, words(1, 65)))
    message, status = refusal(world)
    assert (status, "at most 65 fit" in message) == (400, True)


def test_an_empty_prompt_is_refused() -> None:
    world = World()
    world.send(generate(1, [], 5))
    assert refusal(world) == ("the prompt is empty", 400)


def test_a_full_queue_refuses_and_the_others_go_on() -> None:
    world = World(replace(SMALL, num_slots=1, max_queued=2))
    world.send(*(generate(uid, words(uid, 5), 6) for uid in range(1, 5)))
    world.run()
    assert [world.end(uid).reason.status for uid in range(1, 5)] == [200, 200, 503, 503]
    assert world.end(3).reason.message == "the queue is full"
    world.assert_exact(1, 2)


def test_who_waits_too_long_is_told() -> None:
    world = World(replace(SMALL, num_slots=1, queue_timeout_s=0.5))
    world.send(generate(1, words(1, 5), 60))
    world.turn()
    world.send(generate(2, words(2, 5), 6), generate(3, words(3, 5), 6, queue_timeout_s=60.0))
    world.send(generate(4, words(4, 5), 6, queue_timeout_s=0.01))
    world.run()
    assert [world.end(uid).reason.status for uid in (1, 2, 3, 4)] == [200, 503, 200, 503]
    assert 0.5 <= world.end(2).queue_s < 0.6
    assert 0.01 <= world.end(4).queue_s < 0.1
    world.assert_exact(1, 3)
    world.assert_clean()


def test_who_has_run_does_not_time_out() -> None:
    world = World(replace(SMALL, num_slots=2, queue_timeout_s=0.2))
    world.send(generate(1, words(1, 5), 60), generate(2, words(2, 5), 20))
    world.turn(5)
    world.roster.retract(world.roster.requests[2])
    world.send(generate(3, words(3, 5), 60))
    world.run()
    world.assert_exact(1, 2)


def test_grammars_need_somebody_who_understands_them() -> None:
    world = World()
    world.send(generate(1, words(1, 5), 5, grammar="no such thing"))
    message, status = refusal(world)
    assert status == 400
    assert "no such toy grammar" in message
    limits = Limits(num_slots=2, context_length=64, token_budget=16)
    scheduler = Scheduler(limits, RadixCache(16, 4, 2, 16))
    scheduler.receive(generate(1, words(1, 5), 5, grammar="parity"), 0.0)
    (out,) = scheduler.outbox()
    assert isinstance(out, BatchTokenIDOut)
    assert "not available" in out.finished[0].reason.message


# ---------------------------------------------------------------------- probes and reports


def probe(world: World, *uids: int) -> list[tuple[int, int]]:
    """Ask after requests; give (epoch, next position) of each."""
    named = np.array(uids, np.int64).tobytes()
    world.send(ProbeReq(front=3, uids=named, epochs=column([0] * len(uids))))
    world.turn()
    reply = world.out.replies[-1]
    assert isinstance(reply, ProbeReply)
    assert (reply.front, reply.uids, reply.mismatch()) == (3, named, "")
    return list(zip(i32(reply.epochs).tolist(), i32(reply.next).tolist(), strict=True))


def test_a_probe_names_the_position_that_is_sent_next() -> None:
    """Not what is known here: tokens that wait for their message are not lost."""
    world = World(replace(SMALL, quiet_interval=50, num_slots=2))
    world.send(generate(1, words(1, 5), 30, epoch=2, committed=[65, 66]), generate(2, words(2, 5), 30, stream=False))
    world.send(generate(3, words(3, 5), 4, epoch=1, committed=[65]))
    world.turn(6)
    heard = len(world.tokens(1))
    assert probe(world, 2, 1, 99, 3) == [(0, 0), (2, heard), (-1, 0), (1, 1)]
    world.roster.retract(world.roster.requests[2])
    assert probe(world, 2) == [(0, 0)]
    world.run()
    world.assert_exact(2)


def test_a_busy_replica_says_how_busy() -> None:
    world = World(replace(SMALL, num_slots=2))
    world.send(*(generate(uid, words(uid, 8), 9) for uid in (1, 2, 3)))
    world.turn(3)
    load = world.scheduler.load()
    assert (load.running, load.waiting, load.waiting_tokens, load.total_tokens) == (2, 1, 8, 256)
    assert load.used_tokens >= 16
    world.run()
    idle = world.scheduler.load()
    assert (idle.running, idle.waiting, idle.waiting_tokens, idle.used_tokens) == (0, 0, 0, 0)


def test_the_life_of_a_request_is_traced() -> None:
    events: list[tuple[str, int]] = []
    limits = Limits(num_slots=2, context_length=64, token_budget=4, eos_ids=(EOS,))
    scheduler = Scheduler(limits, RadixCache(16, 4, 2, 16), notify=lambda name, uid: events.append((name, uid)))
    world = World(replace(SMALL, token_budget=4))
    scheduler.receive(generate(1, words(1, 6), 2), 0.0)
    executor = world.executor
    while (step := scheduler.plan(0.0)) is not None:
        result = executor.sample(executor.forward(step), None).wait()
        scheduler.commit(step, result, 0.0)
    names = ["receive", "prefill", "prefill", "first_token", "finish"]
    assert events == [(f"Scheduler.{name}", 1) for name in names]


# ---------------------------------------------------------------------- namespaces


def test_new_weights_share_nothing_with_old_ones() -> None:
    world = World()
    world.send(generate(1, words(1, 17), 20))
    world.turn(4)
    world.roster.weight_version += 1
    world.send(generate(2, words(1, 17), 4))
    world.run()
    assert world.end(2).cached_tokens == 0
    world.send(generate(3, words(1, 17), 4))
    world.run()
    assert world.end(3).cached_tokens == 16
    world.assert_exact()
    world.assert_clean()


@pytest.mark.parametrize(("salt", "lora", "cached"), [("", "", 16), ("tenant", "", 0), ("", "adapter", 0)])
def test_tenants_and_adapters_share_nothing(salt: str, lora: str, cached: int) -> None:
    world = World()
    world.send(generate(1, words(1, 17), 4))
    world.run()
    world.send(generate(2, words(1, 17), 4, salt=salt, lora=lora))
    world.run()
    assert world.end(2).cached_tokens == cached
    world.assert_exact()


# ---------------------------------------------------------------------- the step


@DEPTHS
@pytest.mark.parametrize("chained", [True, False])
def test_steady_is_said_exactly_when_nothing_changed(depth: int, chained: bool) -> None:
    world = World(replace(SMALL, depth=depth, chained=chained, stages=1 if chained else depth, retract_every=19))
    world.send(generate(1, words(1, 5), 40), generate(2, words(2, 6), 30))
    world.turn(12)
    world.send(generate(3, words(3, 40), 9), generate(4, words(4, 6), 30))
    world.turn(8)
    world.send(abort(4))
    for uid in range(10, 16):  # an embedding comes and goes without ever being a decode row
        world.turn(2)
        world.send(embed(uid, words(uid, 5)))
    world.run()
    world.assert_exact(1, 2, 3)
    steady = 0
    for before, step in zip(world.trail.steps, world.trail.steps[1:], strict=False):
        same = not before.num_extend and np.array_equal(before.decode_slots, step.decode_slots)
        quiet = not (step.num_extend or len(step.page_ids) or step.admissions or len(step.released))
        assert step.steady == (same and quiet)
        if step.steady:
            assert (step.decode_positions == before.decode_positions + 1).all()
            steady += 1
    assert not world.trail.steps[0].steady
    assert 0 < steady < len(world.trail.steps) / 2 + 20


def test_the_first_step_after_a_failure_is_not_steady() -> None:
    world = World(replace(SMALL, page_size=16, num_pages=16))
    world.send(generate(1, words(1, 5), 12), generate(2, words(2, 5), 12))
    world.turn(5)
    step = world.scheduler.plan(world.clock.now())
    assert step is not None
    assert step.steady
    world.executor.recover()
    world.scheduler.fail(step, "planted", world.clock.now())
    launched = len(world.trail.steps)
    world.turn(4)
    assert [step.steady for step in world.trail.steps[launched:]] == [False, False, False, True]
    world.run()
    world.assert_exact()


def test_masked_rows_are_those_of_grammars_that_sample() -> None:
    world = World(replace(SMALL, token_budget=8))
    world.send(generate(1, words(1, 5), 6), generate(2, words(2, 12), 6, grammar="parity"))
    world.run()
    for step in world.trail.steps:
        for row in step.masked_rows:
            assert row >= step.num_extend or step.extend_samples[row]
    assert sum(len(step.masked_rows) for step in world.trail.steps) == len(world.tokens(2))
    world.assert_exact()


def test_masks_of_requests_that_have_ended_allow_everything() -> None:
    world = World(replace(SMALL, depth=2))
    world.send(generate(1, words(1, 5), 20, grammar="parity"))
    world.turn(3)
    step = world.trail.steps[-1]
    assert step.masked_rows.tolist() == [0]
    before = world.scheduler.masks(step)
    assert before is not None
    assert (before != 0xFFFFFFFF).any()
    world.scheduler.abort(abort(1), 0.0)
    after = world.scheduler.masks(step)
    assert after is not None
    assert (after == 0xFFFFFFFF).all()
    world.run()


def test_idle_means_nobody_waits_and_nobody_runs() -> None:
    world = World(replace(SMALL, depth=4, num_slots=1))
    seen = [world.scheduler.is_idle]
    world.send(generate(1, words(1, 5), 9), generate(2, words(2, 5), 9))
    world.turn(3)
    seen.append(world.scheduler.is_idle)
    world.scheduler.abort(abort(1, 2), 0.0)
    seen.append(world.scheduler.is_idle)  # a slot is still touched by a step in flight
    world.run()
    seen.append(world.scheduler.is_idle)
    assert seen == [True, False, False, True]
