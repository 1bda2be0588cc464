"""findings(): every kind of disorder is named, and order is not."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from banyan.memory.ledger.cache import RadixCache
from banyan.sched.check import findings
from banyan.sched.req import Phase
from tests.fakes.world import SMALL, World, abort, generate, words


def busy() -> World:
    """Two requests run and one waits."""
    world = World(replace(SMALL, num_slots=2))
    world.send(*(generate(uid, words(uid, 9), 20) for uid in (1, 2, 3)))
    world.turn(3)
    assert (world.roster.requests[1].slot, world.roster.requests[3].slot) == (1, 0)
    return world


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_order_is_found_in_every_state(depth: int) -> None:
    """World checks turn by turn; here is only a life with everything in it."""
    world = World(replace(SMALL, depth=depth, num_pages=20, retract_every=5))
    world.send(*(generate(uid, words(uid % 3, 9), 20) for uid in range(1, 9)))
    world.turn(7)
    world.send(abort(2, 5))
    world.run()
    assert findings(world.scheduler) == []


def lose_a_page(world: World) -> None:
    assert isinstance(world.cache, RadixCache)
    world.cache.pages.alloc(1)


def lose_a_slot(world: World) -> None:
    world.roster.by_slot[2] = None


def swap_slots(world: World) -> None:
    world.roster.requests[1].slot = 2


def wait_and_run(world: World) -> None:
    world.roster.queue.add(world.roster.requests[1], (1, 0, 0))


def forget_who_waits(world: World) -> None:
    del world.roster.requests[3]


def list_the_dead(world: World) -> None:
    world.roster.requests[3].phase = Phase.DONE


def mix_up_phases(world: World) -> None:
    world.roster.columns.phase[1] = Phase.HELD


def mix_up_names(world: World) -> None:
    world.roster.columns.uid[1] = 99


def stay_after_the_end(world: World) -> None:
    world.roster.columns.set_phase(world.roster.requests[1], Phase.RETRACT)


def commit_twice(world: World) -> None:
    world.roster.columns.in_flight[2] -= 1


@pytest.mark.parametrize(
    ("spoil", "words_found"),
    [
        (lose_a_page, "1 pages have no owner"),
        (lose_a_slot, "1 slots taken, 0 free, 2 in all"),
        (swap_slots, "request 1 believes to be in slot 2"),
        (wait_and_run, "request 1 is in slot 1 and in the queue"),
        (forget_who_waits, "request 3 waits but is not listed"),
        (list_the_dead, "request 3 has ended but is still listed"),
        (mix_up_phases, "slot 1 and its request disagree"),
        (mix_up_names, "slot 1 and its request disagree"),
        (stay_after_the_end, "slot 1 is held by a request that has left it"),
        (commit_twice, "below zero in slots [2]"),
    ],
)
def test_disorder_is_named(spoil: Callable[[World], None], words_found: str) -> None:
    world = busy()
    assert findings(world.scheduler) == []
    spoil(world)
    assert any(words_found in finding for finding in findings(world.scheduler))
