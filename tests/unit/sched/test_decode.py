"""DecodePlanner: every running request in every step, and who gives its memory back when pages run out."""

import math

import pytest
from msgspec.structs import replace

from banyan.memory.ledger.cache import RadixCache
from banyan.sched.budget import NewTokenRatio
from banyan.sched.decode import DecodePlanner
from banyan.sched.req import Phase, Req
from banyan.sched.roles import Unified
from banyan.sched.roster import Roster
from banyan.wire.output import FinishReason
from tests.fakes.server import Shape
from tests.fakes.world import SMALL, World, generate, words

DEPTHS = pytest.mark.parametrize("depth", [1, 2, 4])
BOLD = replace(SMALL, conservativeness=0.05, token_budget=64)  # admits more than fits, so that pages run out


# ---------------------------------------------------------------------- rows


@DEPTHS
def test_every_step_carries_every_running_request(depth: int) -> None:
    world = World(replace(SMALL, depth=depth, num_pages=128, token_budget=64))
    world.send(*(generate(uid, words(uid, 4), 20) for uid in range(1, 7)))
    world.run()
    decodes = [step for step in world.trail.steps if not step.num_extend]
    assert [len(step.decode_slots) for step in decodes] == [6] * 19
    world.assert_exact()


def test_positions_rise_by_one_a_step() -> None:
    world = World()
    world.send(generate(1, words(1, 5), 10))
    world.run()
    assert [step.decode_positions.tolist() for step in world.trail.steps[1:]] == [[n] for n in range(5, 14)]


@DEPTHS
def test_no_row_is_launched_beyond_the_length(depth: int) -> None:
    """How long a request may get is known beforehand, so no step is wasted on it."""
    world = World(replace(SMALL, depth=depth))
    world.send(generate(1, words(1, 5), 7))
    world.run()
    assert len(world.trail.steps) == 7


@pytest.mark.parametrize("depth", [2, 4])
@pytest.mark.parametrize("running", [1, 3, 8])
def test_a_pipeline_gives_each_lane_its_share(depth: int, running: int) -> None:
    world = World(replace(SMALL, depth=depth, chained=False, stages=depth, num_pages=128, token_budget=64))
    world.send(*(generate(uid, words(uid, 4), 20) for uid in range(1, running + 1)))
    while world.turn():
        assert world.roster.columns.in_flight.max() <= 1  # nobody is in two steps at once
    world.assert_exact()
    assert max(len(step.decode_slots) for step in world.trail.steps) == math.ceil(running / depth)


# ---------------------------------------------------------------------- memory


@DEPTHS
@pytest.mark.parametrize(("priorities", "victim"), [((0, -1, 5), 2), ((-1, -1, 0), 2), ((-1, 0, 0), 1), ((0, 0, 0), 3)])
def test_the_youngest_of_the_lowest_priority_is_retracted(
    depth: int, priorities: tuple[int, int, int], victim: int
) -> None:
    world = World(replace(BOLD, depth=depth, num_pages=14))
    world.send(*(generate(uid, words(uid, 8), 12, priority=p) for uid, p in enumerate(priorities, start=1)))
    world.run()
    world.assert_exact()
    assert {uid: world.end(uid).retractions for uid in world.asked} == {uid: int(uid == victim) for uid in world.asked}
    assert world.scheduler.info().retractions == 1


def test_a_prompt_under_way_can_be_the_victim() -> None:
    world = World(replace(BOLD, num_pages=16, token_budget=6))
    world.send(generate(1, words(1, 8), 40))
    world.turn(4)
    world.send(generate(2, words(2, 38), 4))
    world.run()
    world.assert_exact()
    assert (world.end(1).retractions, world.end(2).retractions) == (0, 1)


class Exhausted:
    """A planner over three running requests that all want a page, when there is none; a session may hold some."""

    def __init__(self, session: str = "") -> None:
        self.world = World(replace(SMALL, token_budget=64))
        if session:
            self.world.send(generate(9, words(9, 16), 4, session=session))
            self.world.run()
        self.world.send(*(generate(uid, words(uid, 8), 20) for uid in (1, 2, 3)))
        self.world.turn()
        self.roster, self.ratio = self.world.roster, NewTokenRatio(0.1)
        self.planner = DecodePlanner(self.roster, self.ratio)
        assert isinstance(self.world.cache, RadixCache)
        self.world.cache.pages.alloc(self.world.cache.available())
        self.reqs = list(self.roster.running.values())

    def rows(self) -> int:
        slots, positions = self.planner.plan()
        assert len(slots) == len(positions)
        return len(slots)


def test_somebody_s_memory_serves_the_others() -> None:
    short = Exhausted()
    assert short.rows() == 2
    assert [req.phase for req in short.reqs] == [Phase.DECODE, Phase.DECODE, Phase.WAITING]
    assert not short.planner.starved


def test_an_idle_session_yields_before_anybody_is_retracted() -> None:
    short = Exhausted(session="s")
    assert short.rows() == 3
    assert short.roster.retractions == 0
    assert len(short.roster.sessions) == 1


def test_a_retraction_makes_admission_more_careful() -> None:
    short = Exhausted()
    before = short.ratio.value
    short.rows()
    assert short.ratio.value > before + 0.1


def test_a_victim_in_flight_gives_its_memory_only_when_its_steps_are_in() -> None:
    short = Exhausted()
    victim = short.reqs[2]
    short.roster.columns.in_flight[victim.slot] = 1
    assert short.rows() == 0
    assert short.planner.starved
    assert victim.phase is Phase.RETRACT
    assert short.rows() == 0  # nobody else is retracted meanwhile
    assert short.roster.retractions == 1
    short.roster.columns.in_flight[victim.slot] = 0
    short.roster.settle(victim)
    assert short.rows() == 2
    assert short.roster.retractions == 1


def test_nobody_is_retracted_while_the_pages_of_an_ended_request_are_on_their_way_back() -> None:
    short = Exhausted()
    ended = short.reqs[0]
    short.roster.columns.in_flight[ended.slot] = 1
    short.roster.end(ended, FinishReason(kind="abort"))
    assert short.rows() == 0
    assert short.planner.starved
    assert short.roster.retractions == 0


def test_the_last_one_waits_for_somebody_who_is_held() -> None:
    short = Exhausted()
    short.roster.hold(short.reqs[0])
    short.roster.hold(short.reqs[1])
    assert short.rows() == 0
    assert short.planner.starved
    assert not short.planner.failed
    assert short.reqs[2].phase is Phase.DECODE


def test_the_last_one_of_all_is_given_up() -> None:
    short = Exhausted()
    for req in short.reqs[1:]:
        short.roster.end(req, FinishReason(kind="abort"))
    short.world.cache.flush()
    assert isinstance(short.world.cache, RadixCache)
    short.world.cache.pages.alloc(short.world.cache.available())
    assert short.rows() == 0
    assert short.planner.failed == [short.reqs[0]]
    assert short.reqs[0].reason is not None
    assert short.reqs[0].reason.status == 507


@DEPTHS
def test_unsent_tokens_survive_a_retraction(depth: int) -> None:
    """Whoever does not stream has tokens that nobody has heard of when it is retracted."""
    world = World(replace(SMALL, depth=depth, retract_every=3, quiet_interval=50))
    world.send(*(generate(uid, words(uid, 8), 20, stream=False) for uid in range(1, 5)))
    world.run()
    assert world.roster.retractions > 4
    world.assert_exact()
    world.assert_clean()


def test_a_retracted_request_reuses_its_own_pages() -> None:
    world = World(replace(SMALL, retract_every=6, num_pages=128))
    world.send(*(generate(uid, words(uid, 16), 20) for uid in (1, 2)))
    world.run()
    world.assert_exact()
    recomputed = world.extend_tokens() - 32
    assert world.roster.retractions > 1
    assert recomputed <= world.roster.retractions * SMALL.page_size


def progress(shape: Shape, count: int) -> list[int]:
    """Send many requests of the longest kind to a pool of three; list how often each was retracted."""
    world = World(replace(shape, num_pages=24, num_slots=16, context_length=32))
    world.send(*(generate(uid, words(uid, 6), 26, stream=uid % 2 == 0) for uid in range(1, count + 1)))
    world.run()
    world.assert_exact()
    world.assert_clean()
    return [world.end(uid).retractions for uid in world.asked]


@pytest.mark.parametrize(("depth", "forced"), [(1, 0), (2, 3)])
def test_a_tiny_pool_serves_everybody(depth: int, forced: int) -> None:
    assert max(progress(replace(SMALL, depth=depth, retract_every=forced), 64)) <= 8


@pytest.mark.parametrize("depth", [1, 2])
def test_a_tiny_pool_serves_everybody_however_boldly_it_admits(depth: int) -> None:
    assert 1 <= max(progress(replace(BOLD, depth=depth), 32)) <= 8


def test_in_a_pipeline_too() -> None:
    assert max(progress(replace(BOLD, depth=4, chained=False, stages=4), 20)) <= 8


class Farewell(Unified):
    """Writes down who is gone."""

    def __init__(self, roster: Roster) -> None:
        super().__init__(roster)
        self.names: list[int] = []

    def gone(self, req: Req) -> None:
        """Write."""
        self.names.append(req.uid)


@DEPTHS
def test_one_request_that_does_not_fit_alone_ends_with_an_error(depth: int) -> None:
    """Somebody outside the batch holds the memory for good."""
    world = World(replace(SMALL, depth=depth, num_pages=16))
    world.scheduler.role = role = Farewell(world.roster)
    world.send(generate(1, words(1, 8), 40))
    world.server.loop.turn()
    assert isinstance(world.cache, RadixCache)
    stolen = world.cache.pages.alloc(world.cache.available())
    assert stolen is not None
    while world.server.loop.turn():
        pass
    end = world.end(1)
    assert (end.reason.kind, end.reason.status) == ("error", 507)
    assert world.tokens(1) == world.expected(1)[: len(world.tokens(1))]
    assert world.scheduler.is_idle
    assert role.names == [1]
    world.send(generate(2, words(2, 8), 20))
    world.run()
    world.assert_exact(2)  # the idle check has found the pages meanwhile


@DEPTHS
def test_a_forced_retraction_leaves_one_running(depth: int) -> None:
    world = World(replace(SMALL, depth=depth, retract_every=1))
    world.send(*(generate(uid, words(uid, 8), 12) for uid in (1, 2, 3)))
    world.run()
    assert world.end(1).retractions == 0
    world.assert_exact()


def test_a_retracting_request_is_in_no_new_step() -> None:
    world = World(replace(SMALL, depth=4))
    world.send(*(generate(uid, words(uid, 4), 20) for uid in (1, 2)))
    world.turn(6)
    req = world.roster.requests[2]
    slot = req.slot
    world.roster.retract(req)
    assert (req.slot, int(world.roster.columns.phase[slot])) == (slot, Phase.RETRACT)
    launched = len(world.trail.steps)
    while req.slot == slot:
        world.turn()
    waiting_turns = world.trail.steps[launched:-1]
    assert waiting_turns
    assert all(slot not in step.decode_slots for step in waiting_turns)
    world.run()
    world.assert_exact()
