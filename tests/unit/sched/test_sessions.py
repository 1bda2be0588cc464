"""Sessions: a conversation's prefix stays in memory between its turns, and yields when memory is short."""

import numpy as np
import pytest
from msgspec.structs import replace

from banyan.memory.ledger.cache import RadixCache
from banyan.memory.ledger.node import Namespace
from banyan.sched.sessions import Sessions
from banyan.wire.base import I32
from banyan.wire.control import CloseSessionReqInput, OpenSessionReqInput
from tests.fakes.world import SMALL, World, abort, generate, words

TENANT = Namespace()


def stored(cache: RadixCache, seed: int, count: int = 8) -> I32:
    """Put a prefix into the tree."""
    tokens: I32 = np.asarray(words(seed, count), np.int32)
    cache.open(1, TENANT, tokens, 0)
    assert cache.reserve(np.asarray([1], np.int32), np.asarray([count], np.int32))
    cache.close(1, tokens, count, born=0)
    return tokens


@pytest.fixture
def cache() -> RadixCache:
    return RadixCache(num_pages=16, page_size=4, num_slots=2, max_pages_per_slot=16)


def test_a_session_is_opened_and_closed_once(cache: RadixCache) -> None:
    sessions = Sessions(cache)
    assert [sessions.open("s"), sessions.open("s"), len(sessions)] == [True, False, 1]
    assert [sessions.close("s"), sessions.close("s"), len(sessions)] == [True, False, 0]


def test_what_is_kept_cannot_be_evicted_until_closed(cache: RadixCache) -> None:
    sessions = Sessions(cache)
    sessions.keep("s", TENANT, stored(cache, 1))
    assert cache.usage().locked == 2
    assert cache.flush() == 0
    sessions.close("s")
    assert cache.usage().locked == 0
    assert cache.flush() == 2


def test_a_longer_prefix_takes_the_place_of_the_one_before(cache: RadixCache) -> None:
    sessions = Sessions(cache)
    sessions.keep("s", TENANT, stored(cache, 1, 8))
    sessions.keep("s", TENANT, stored(cache, 1, 16))
    assert (len(sessions), cache.usage().locked) == (1, 4)
    sessions.close("s")
    assert cache.usage().locked == 0


def test_the_longest_unused_yields_first_and_stays_open(cache: RadixCache) -> None:
    sessions = Sessions(cache)
    first, second = stored(cache, 1), stored(cache, 2)
    sessions.open("idle")
    sessions.keep("a", TENANT, first)
    sessions.keep("b", TENANT, second)
    sessions.keep("a", TENANT, first)  # used again
    assert sessions.release_oldest()
    cache.flush()
    assert (cache.peek(TENANT, first), cache.peek(TENANT, second)) == (8, 0)
    assert sessions.release_oldest()
    assert not sessions.release_oldest()
    assert len(sessions) == 3
    assert cache.check() == []


# ---------------------------------------------------------------------- in a server


def first_turn(world: World) -> list[int]:
    """Run the first turn of session "s"; return the prompt of the second."""
    prompt = words(1, 18)
    world.send(OpenSessionReqInput(front=0, call=1, id="s", capacity=256))
    world.send(generate(1, prompt, 6, session="s"))
    world.run()
    return [*prompt, *world.tokens(1), *words(2, 5)]


def pressure(world: World, count: int) -> None:
    """Send so many strangers, one after another, that everything unpinned is evicted."""
    for number in range(100, 100 + count):
        world.send(generate(number, words(number, 30), 10))
        world.run()


def test_the_second_turn_reuses_the_first_even_after_pressure() -> None:
    world = World(replace(SMALL, num_pages=24))
    prompt = first_turn(world)
    pressure(world, 10)
    world.send(generate(2, prompt, 6, session="s"))
    world.run()
    assert world.end(2).cached_tokens == 20  # 23 tokens have KV: five whole pages
    world.assert_exact()
    assert world.scheduler.info().sessions == 1


def test_without_a_session_pressure_wins() -> None:
    world = World(replace(SMALL, num_pages=24))
    prompt = words(1, 18)
    world.send(generate(1, prompt, 6))
    world.run()
    pressure(world, 10)
    world.send(generate(2, [*prompt, *world.tokens(1)], 6))
    world.run()
    assert world.end(2).cached_tokens == 0


def test_closing_gives_the_memory_back() -> None:
    world = World()
    first_turn(world)
    assert world.cache.usage().locked == 5
    world.send(CloseSessionReqInput(front=0, call=2, id="s"))
    world.run()
    assert world.scheduler.info().sessions == 0
    world.assert_clean()


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_an_aborted_turn_leaves_the_session_as_it_was(depth: int) -> None:
    world = World(replace(SMALL, depth=depth))
    prompt = first_turn(world)
    locked = world.cache.usage().locked
    world.send(generate(2, prompt, 60, session="s"))
    world.turn(6)
    world.send(abort(2))
    world.run()
    assert world.end(2).reason.kind == "abort"
    assert world.cache.usage().locked == locked


def test_a_request_that_needs_all_memory_is_served_before_an_idle_session() -> None:
    """Nothing runs that could give memory back: the pinned prefix must, or the request would wait for ever."""
    world = World(replace(SMALL, num_pages=16))
    first_turn(world)
    world.send(generate(2, words(2, 50), 14))
    world.run()
    world.assert_exact()
    assert world.scheduler.info().sessions == 1


def test_a_prompt_under_way_takes_the_pages_of_an_idle_session() -> None:
    """The request that ran beside it ends as a pinned prefix: nothing runs any more that could give memory back."""
    world = World(replace(SMALL, num_pages=16, conservativeness=0.02, token_budget=3))
    world.send(generate(1, words(1, 8), 21, session="s"))
    world.turn(4)
    world.send(generate(2, words(2, 40), 2))
    world.run()
    world.assert_exact()
    assert world.roster.retractions == 0


def test_running_requests_take_the_pages_of_idle_sessions_before_one_is_retracted() -> None:
    world = World(replace(SMALL, num_pages=16))
    first_turn(world)
    world.send(generate(2, words(2, 8), 20), generate(3, words(3, 8), 20))
    world.run()
    world.assert_exact()
    assert world.scheduler.info().retractions == 0
