"""self_check_during_idle: leaks are healed and reported, and the requests that run survive them exactly."""

import logging

import numpy as np
import pytest
from msgspec.structs import replace

from banyan.memory.ledger.cache import RadixCache
from banyan.sched.idle import self_check_during_idle
from banyan.sched.loop import EventLoop, Turn
from banyan.sched.req import Req
from tests.fakes.world import SMALL, World, embed, generate, words

DEPTHS = pytest.mark.parametrize("depth", [1, 2, 4])
ROOMY = replace(SMALL, num_pages=128)


def ledger(world: World) -> RadixCache:
    assert isinstance(world.cache, RadixCache)
    return world.cache


def busy(depth: int) -> World:
    """Let four requests, one of them unheard for long, and a long prompt be under way."""
    world = World(replace(ROOMY, depth=depth))
    shared = words(77, 8)
    world.send(*(generate(uid, [*shared, *words(uid, 9)], 30, stream=uid != 3) for uid in range(1, 5)))
    world.turn(9)
    world.send(generate(5, words(5, 60), 5))
    world.turn()
    return world


def owner(world: World, uid: int) -> Req:
    return world.roster.requests[uid]


def test_a_clean_server_has_nothing_to_heal(caplog: pytest.LogCaptureFixture) -> None:
    world = busy(2)
    with caplog.at_level(logging.ERROR):
        assert self_check_during_idle(world.scheduler) == []
    assert not caplog.records
    assert world.scheduler.info().leaks_healed == 0


@DEPTHS
def test_lost_pages_come_back(depth: int, caplog: pytest.LogCaptureFixture) -> None:
    world = busy(depth)
    lost = ledger(world).pages.alloc(7)
    assert lost is not None
    with caplog.at_level(logging.ERROR):
        found = self_check_during_idle(world.scheduler)
    assert any("7 pages have no owner" in finding for finding in found)
    assert any("7 pages have no owner" in record.getMessage() for record in caplog.records)
    assert any("7 pages recovered" in record.getMessage() for record in caplog.records)
    assert world.scheduler.info().leaks_healed == 1
    assert world.roster.retractions == 0  # nobody's KV was touched
    world.run()
    world.assert_exact()


@DEPTHS
def test_a_lock_that_nobody_holds_is_undone(depth: int) -> None:
    world = busy(depth)
    namespace = owner(world, 1).namespace(0)
    ledger(world).tree.lock(ledger(world).tree.root(namespace))
    assert self_check_during_idle(world.scheduler)
    world.run()
    world.assert_exact()
    world.cache.flush()
    assert world.cache.usage().free == ROOMY.num_pages


@DEPTHS
def test_two_requests_that_hold_one_page_are_both_computed_anew(depth: int) -> None:
    world = busy(depth)
    first, second = owner(world, 1).slot, owner(world, 3).slot
    held = world.cache.held
    world.cache.table[first, held[first] - 1] = world.cache.table[second, held[second] - 1]
    found = self_check_during_idle(world.scheduler)
    assert any("2 owners" in finding for finding in found)
    assert world.roster.retractions == 2
    world.run()
    world.assert_exact()
    world.cache.flush()
    assert world.cache.usage().free == ROOMY.num_pages


@DEPTHS
def test_a_request_that_holds_a_page_of_the_tree_is_computed_anew(depth: int) -> None:
    """The tree cannot be trusted either: everybody who shares that part of it starts again."""
    world = busy(depth)
    slot, sharer = owner(world, 5).slot, owner(world, 2).slot
    world.cache.table[slot, world.cache.held[slot] - 1] = world.cache.table[sharer, 0]
    assert self_check_during_idle(world.scheduler)
    assert world.roster.retractions >= 1
    world.run()
    world.assert_exact()


@pytest.mark.parametrize("depth", [2, 4])
def test_a_held_request_is_computed_anew_too(depth: int) -> None:
    """An embedding in its last step is in no batch, but it has pages."""
    world = World(replace(ROOMY, depth=depth, token_budget=64))
    world.send(generate(1, words(1, 9), 30), embed(9, words(9, 30)))
    world.turn()
    slot = owner(world, 9).slot
    assert world.cache.shared[slot] < world.cache.held[slot]
    world.cache.table[slot, world.cache.held[slot] - 1] = world.cache.table[owner(world, 1).slot, 0]
    assert self_check_during_idle(world.scheduler)
    world.run()
    world.assert_exact(1)
    vector = world.out.heard[9, 0].vector
    assert vector is not None
    assert np.allclose(vector, world.oracle.embeddings(world.oracle.extend(0, np.asarray(words(9, 30), np.int32)))[-1])


def test_the_loop_checks_as_often_as_it_is_told() -> None:
    world = World()
    world.send(generate(1, words(1, 9), 20))

    def inbox() -> Turn:
        messages = list(world.server.inbox)
        world.server.inbox.clear()
        return Turn(world.clock.now(), messages)

    loop = EventLoop(inbox, world.scheduler, world.executor, world.out.take, check_every=3)
    loop.turn()
    assert ledger(world).pages.alloc(2) is not None
    healed = []
    while loop.turn():
        healed.append(world.scheduler.leaks_healed)
    assert healed[:3] == [0, 1, 1]
    world.assert_exact()


def test_an_idle_server_checks_once_and_again_after_work() -> None:
    world = World()
    world.send(generate(1, words(1, 9), 4))
    for _ in range(30):
        world.server.loop.turn()
    assert ledger(world).pages.alloc(2) is not None
    world.server.loop.turn()
    assert world.scheduler.leaks_healed == 0  # idle since the last check: nothing can have changed
    world.send(generate(2, words(2, 9), 4))
    for _ in range(30):
        world.server.loop.turn()
    assert world.scheduler.leaks_healed == 1
    world.assert_exact()


def test_a_large_cache_is_not_audited_after_every_request() -> None:
    """An audit looks at every cached page: a server that falls idle often would do little else."""
    world = World(replace(SMALL, page_size=1, num_pages=512, token_budget=256))
    world.send(generate(1, words(1, 200), 4))
    world.run()
    assert ledger(world).pages.alloc(2) is not None
    world.send(generate(2, words(2, 5), 2))
    for _ in range(9):
        world.server.loop.turn()
    healed = [world.scheduler.leaks_healed]
    world.clock.sleep_until(world.clock.now() + 1.0)
    world.server.loop.turn()
    healed.append(world.scheduler.leaks_healed)
    assert healed == [0, 1]
    world.assert_exact()
