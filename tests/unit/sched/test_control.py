"""Control messages: each is answered once, and does what it says."""

from typing import get_args

import pytest
from msgspec.structs import replace

from banyan.plan import Step
from banyan.sched.control import ControlTable
from banyan.wire.control import (
    CloseSessionReqInput,
    ContinueGenerationReqInput,
    ControlReply,
    ControlReq,
    FlushCacheReqInput,
    GetServerInfoReq,
    OpenSessionReqInput,
    PauseGenerationReqInput,
    ProfileReq,
    ServerInfo,
    ToScheduler,
)
from banyan.worker.fake import Faults
from tests.fakes.world import SMALL, World, abort, embed, generate, words

DEPTHS = pytest.mark.parametrize("depth", [1, 2, 4])


def call(world: World, request: ToScheduler) -> ControlReply:
    """Send a control message and give the answer."""
    before = len(world.out.replies)
    world.send(request)
    world.turn()
    (reply,) = world.out.replies[before:]
    assert isinstance(reply, ControlReply)
    return reply


def info(world: World) -> ServerInfo:
    reply = call(world, GetServerInfoReq(front=0, call=9))
    assert reply.info is not None
    return reply.info


def test_every_control_message_has_an_answer() -> None:
    examples: list[ControlReq] = [
        FlushCacheReqInput(front=2, call=1),
        GetServerInfoReq(front=2, call=2),
        PauseGenerationReqInput(front=2, call=3),
        ContinueGenerationReqInput(front=2, call=4),
        OpenSessionReqInput(front=2, call=5, id="s", capacity=9),
        CloseSessionReqInput(front=2, call=6, id="s"),
        ProfileReq(front=2, call=7, action="start"),
    ]
    assert {type(m) for m in examples} == {kind for kind in get_args(ToScheduler) if issubclass(kind, ControlReq)}
    world = World()
    table = ControlTable(world.scheduler, world.executor)
    for request in examples:
        reply = table.handle(request)
        assert (reply.front, reply.call, reply.replica) == (2, request.call, 0)
        assert reply.ok == (not isinstance(request, ProfileReq))


def test_what_the_device_cannot_do_is_refused_by_name() -> None:
    reply = call(World(), ProfileReq(front=0, call=1, action="start"))
    assert not reply.ok
    assert "ProfileReq" in reply.message


def test_a_flush_forgets_what_nobody_holds_and_says_how_much() -> None:
    world = World()
    world.send(generate(1, words(1, 17), 4))
    world.run()
    cached = world.cache.usage().cached
    assert cached == 5
    world.send(generate(2, words(2, 9), 30))
    world.turn(3)
    assert call(world, FlushCacheReqInput(front=0, call=1)).message == "5 pages forgotten"
    world.run()
    world.assert_exact()


@DEPTHS
def test_a_flush_in_the_middle_changes_no_token(depth: int) -> None:
    world = World(replace(SMALL, depth=depth))
    shared = words(7, 20)
    world.send(*(generate(uid, [*shared, uid], 10) for uid in range(1, 5)))
    for number in range(12):
        call(world, FlushCacheReqInput(front=0, call=number))
    world.run()
    world.assert_exact()
    world.assert_clean()


def test_the_state_is_reported() -> None:
    world = World(replace(SMALL, num_slots=2))
    world.send(*(generate(uid, words(uid, 9), 8) for uid in range(1, 4)))
    world.turn(3)
    now = info(world)
    assert (now.running, now.waiting, now.page_size, now.total_pages) == (2, 1, 4, 64)
    assert now.held_pages > 0
    assert now.free_pages + now.cached_pages + now.held_pages == 64
    world.run()
    after = info(world)
    assert (after.running, after.waiting, after.held_pages) == (0, 0, 0)
    assert (after.prompt_tokens, after.output_tokens, after.cached_tokens) == (27, 24, 0)
    assert after.steps == len(world.trail.steps)


def test_cached_tokens_are_counted_in_the_totals() -> None:
    world = World()
    world.send(generate(1, words(1, 17), 4))
    world.run()
    world.send(generate(2, words(1, 17), 4))
    world.run()
    assert info(world).cached_tokens == 16


@DEPTHS
@pytest.mark.parametrize("retract", [False, True])
def test_a_pause_stops_everything_and_nothing_is_lost(depth: int, retract: bool) -> None:
    world = World(replace(SMALL, depth=depth))
    world.send(*(generate(uid, words(uid, 9), 30, stream=uid == 1) for uid in range(1, 5)))
    world.send(embed(9, words(9, 40)), generate(10, words(10, 60), 4))
    world.turn(6)
    assert call(world, PauseGenerationReqInput(front=0, call=1, retract=retract)).ok
    steps = len(world.trail.steps)
    assert len(world.trail.results) == steps  # nothing is in flight
    world.turn(5)
    assert len(world.trail.steps) == steps
    assert (world.cache.usage().private == 0) == retract
    assert (info(world).running == 0) == retract
    call(world, ContinueGenerationReqInput(front=0, call=2))
    world.run()
    world.assert_exact()
    assert world.out.heard[9, 0].vector is not None
    world.assert_clean()


def test_a_paused_server_still_hears() -> None:
    world = World(replace(SMALL, queue_timeout_s=5.0))
    world.send(generate(1, words(1, 9), 30))
    world.turn(3)
    call(world, PauseGenerationReqInput(front=0, call=1))
    world.send(abort(1), generate(2, words(2, 9), 4), generate(3, words(3, 9), 4, queue_timeout_s=60.0))
    world.turn()
    assert world.end(1).reason.kind == "abort"
    world.clock.sleep_until(world.clock.now() + 10.0)
    world.turn()
    assert world.end(2).reason.status == 503
    call(world, ContinueGenerationReqInput(front=0, call=2))
    world.run()
    world.assert_exact(3)


@DEPTHS
def test_a_pause_that_finds_a_failing_step_in_flight(depth: int) -> None:
    world = World(replace(SMALL, depth=depth))
    broken: list[int] = []

    def once(step: Step) -> str | None:
        if step.number >= 6 and not broken:
            broken.append(step.number)
            return "once"
        return None

    world.executor.faults = Faults(wait=once)
    world.send(*(generate(uid, words(uid, 9), 20) for uid in range(1, 4)))
    world.turn(6)
    call(world, PauseGenerationReqInput(front=0, call=1, retract=True))
    call(world, ContinueGenerationReqInput(front=0, call=2))
    world.run()
    assert broken
    world.assert_exact()


def test_sessions_are_opened_and_closed_by_name() -> None:
    world = World()
    assert call(world, OpenSessionReqInput(front=0, call=1, id="s", capacity=9)).ok
    again = call(world, OpenSessionReqInput(front=0, call=2, id="s", capacity=9))
    assert not again.ok
    assert "'s'" in again.message
    assert info(world).sessions == 1
    assert call(world, CloseSessionReqInput(front=0, call=3, id="s")).ok
    missing = call(world, CloseSessionReqInput(front=0, call=4, id="s"))
    assert not missing.ok
    assert "'s'" in missing.message


def test_only_a_pause_waits_for_the_device() -> None:
    world = World()
    table = ControlTable(world.scheduler, world.executor)
    assert table.wants_quiet(PauseGenerationReqInput(front=0, call=1))
    assert not table.wants_quiet(GetServerInfoReq(front=0, call=1))
