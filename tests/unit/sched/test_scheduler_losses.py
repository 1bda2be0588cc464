"""Aborts, epochs and resuming: whatever happens to a request, in whatever phase, the others do not notice."""

import random

import pytest
from msgspec.structs import replace

from banyan.sched.req import Phase
from banyan.wire.base import make_uid
from banyan.wire.output import FinishReason
from banyan.wire.request import AbortAllReq, SamplingParams
from banyan.worker.oracle import EOS
from tests.fakes.workload import Mix, workload
from tests.fakes.world import SMALL, World, abort, column, embed, generate, words

DEPTHS = pytest.mark.parametrize("depth", [1, 2, 4])
VICTIM = 50


def company(depth: int, **shape: int) -> World:
    """Let three ordinary requests keep the server busy."""
    world = World(replace(SMALL, depth=depth, **shape))
    world.send(*(generate(uid, words(uid, 7), 25, stream=uid > 1) for uid in (1, 2, 3)))
    return world


def assert_aborted(world: World, uid: int = VICTIM) -> None:
    """The victim has ended once, with a part of its tokens; the others have all of theirs."""
    assert world.end(uid).reason.kind == "abort"
    assert world.tokens(uid) == world.expected(uid)[: len(world.tokens(uid))]
    world.assert_exact(1, 2, 3)
    world.assert_clean()


# ---------------------------------------------------------------------- abort


@DEPTHS
def test_abort_after_any_number_of_turns(depth: int) -> None:
    """Waiting, in the first chunk, amid the prompt, decoding, done: a turn at a time through a whole life."""
    phases = set()
    for turns in range(0, 26, 1 if depth == 2 else 2):
        world = company(depth)
        world.send(generate(VICTIM, words(VICTIM, 40), 12, stream=turns % 4 < 2))
        world.turn(turns)
        held = world.roster.requests.get(VICTIM)
        phases.add(held.phase if held is not None else Phase.DONE if turns else None)
        world.send(abort(VICTIM))
        world.run()
        if held is not None or not turns:
            assert_aborted(world)
        else:
            world.assert_exact()
    assert phases >= {None, Phase.PREFILL, Phase.DECODE, Phase.DONE}


@DEPTHS
def test_abort_while_waiting_says_so_at_once(depth: int) -> None:
    world = company(depth, num_slots=3)
    world.turn(4)
    world.send(generate(VICTIM, words(VICTIM, 9), 12))
    world.turn()
    assert world.roster.requests[VICTIM].phase is Phase.WAITING
    world.send(abort(VICTIM))
    world.turn()
    end = world.end(VICTIM)
    assert (end.reason, end.completion_tokens) == (FinishReason(kind="abort", message="aborted", status=499), 0)
    world.run()
    assert_aborted(world)


@pytest.mark.parametrize("uid", [VICTIM, VICTIM + 1])
def test_abort_of_a_request_held_in_its_last_step(uid: int) -> None:
    world = company(4, token_budget=64)
    world.turn(3)
    world.send(generate(VICTIM, words(VICTIM, 9), 0), embed(VICTIM + 1, words(4, 9)))
    world.turn()
    assert world.roster.requests[uid].phase is Phase.HELD
    world.send(abort(uid))
    world.run()
    assert world.end(uid).reason.kind == "abort"
    assert world.out.heard[VICTIM + 1, 0].reason is not None
    world.assert_exact(1, 2, 3)
    world.assert_clean()


@DEPTHS
def test_abort_of_a_request_on_its_way_out_of_its_slot(depth: int) -> None:
    world = company(depth)
    world.send(generate(VICTIM, words(VICTIM, 9), 25, stream=False))
    world.turn(9)
    req = world.roster.requests[VICTIM]
    known = int(world.roster.columns.known[req.slot]) - req.prompt_len
    world.roster.retract(req)
    assert req.phase is (Phase.RETRACT if depth > 1 else Phase.WAITING)
    world.send(abort(VICTIM))
    world.turn()
    assert len(world.tokens(VICTIM)) == known > 0  # also what had not been sent
    world.run()
    assert_aborted(world)


@DEPTHS
def test_abort_of_a_retracted_request_gives_its_unsent_tokens(depth: int) -> None:
    world = company(depth, num_slots=4, quiet_interval=50)
    world.send(generate(VICTIM, words(VICTIM, 9), 25, stream=False))
    world.turn(9)
    req = world.roster.requests[VICTIM]
    world.roster.retract(req)
    world.send(generate(60, words(60, 9), 25))
    while req.slot:
        world.turn()
    known = len(req.tokens) - req.prompt_len
    assert req.phase is Phase.WAITING
    world.scheduler.abort(abort(VICTIM), world.clock.now())
    world.run()
    assert len(world.tokens(VICTIM)) == known > 0
    assert_aborted(world)


@DEPTHS
def test_a_quiet_abort_is_silent(depth: int) -> None:
    world = company(depth)
    world.send(generate(VICTIM, words(VICTIM, 9), 25), embed(60, words(60, 70)))
    world.turn(6)
    heard = len(world.tokens(VICTIM))
    world.send(abort(VICTIM, 60, quiet=True))
    world.run()
    assert len(world.tokens(VICTIM)) == heard
    assert world.out.reason(VICTIM) is None
    assert (60, 0) not in world.out.heard
    world.assert_exact(1, 2, 3)
    world.assert_clean()


def test_abort_of_somebody_unknown_or_gone_does_nothing() -> None:
    world = company(2)
    world.run()
    world.send(abort(1, 77))
    world.run()
    world.assert_exact()
    assert len(world.out.heard) == 3


@DEPTHS
def test_a_front_aborts_its_own_requests(depth: int) -> None:
    world = World(replace(SMALL, depth=depth))
    mine, other = make_uid(1, 5), make_uid(2, 5)
    world.send(generate(mine, words(1, 9), 20), generate(other, words(2, 9), 20))
    world.turn(4)
    world.send(AbortAllReq(front=1))
    world.run()
    assert world.end(mine).reason.kind == "abort"
    world.assert_exact(other)


@DEPTHS
def test_all_requests_are_aborted(depth: int) -> None:
    world = company(depth, num_slots=2)
    world.send(embed(9, words(9, 30)))
    world.turn(4)
    world.send(AbortAllReq(reason="the server goes away"))
    world.run()
    assert {world.end(uid).reason.message for uid in (1, 2, 3, 9)} == {"the server goes away"}
    world.assert_clean()


# ---------------------------------------------------------------------- epochs


@DEPTHS
def test_a_higher_epoch_takes_over_after_any_number_of_turns(depth: int) -> None:
    """The front has lost what it had not heard yet; the old incarnation says nothing more."""
    for turns in range(0, 22, 1 if depth == 2 else 2):
        world = company(depth, num_slots=4)
        world.send(generate(VICTIM, words(VICTIM, 24), 9, stream=turns % 4 < 2))
        world.turn(turns)
        if turns and VICTIM not in world.roster.requests:
            break
        before = list(world.tokens(VICTIM))
        world.send(generate(VICTIM, words(VICTIM, 24), 9, epoch=1, committed=before))
        world.run()
        assert world.out.tokens(VICTIM, 0) == before
        assert world.out.reason(VICTIM, 0) is None
        world.assert_exact()
        world.assert_clean()
    assert turns > 10


@DEPTHS
def test_the_only_slot_passes_from_the_old_incarnation_to_the_new(depth: int) -> None:
    world = World(replace(SMALL, depth=depth, num_slots=1))
    world.send(generate(1, words(1, 9), 30))
    world.turn(6)
    for epoch in range(1, 5):
        world.send(abort(1, below=epoch, quiet=True))
        world.send(generate(1, words(1, 9), 30, epoch=epoch, committed=world.tokens(1)))
        world.turn(depth + 4)
    world.run()
    world.assert_exact()
    world.assert_clean()


@DEPTHS
def test_an_old_abort_does_not_reach_a_newer_incarnation(depth: int) -> None:
    world = company(depth)
    world.send(generate(VICTIM, words(VICTIM, 9), 12, epoch=3))
    world.turn(4)
    world.send(abort(VICTIM, below=3))
    world.run()
    world.assert_exact()


def test_echoes_are_ignored() -> None:
    world = company(2)
    message = generate(VICTIM, words(VICTIM, 9), 12, epoch=2)
    world.send(message)
    world.turn(3)
    world.send(generate(VICTIM, words(VICTIM, 9), 12, epoch=1), generate(VICTIM, words(VICTIM, 9), 12), message)
    world.run()
    assert (VICTIM, 0) not in world.out.heard
    assert (VICTIM, 1) not in world.out.heard
    world.assert_exact()


def test_an_embedding_can_be_asked_for_again() -> None:
    world = World(replace(SMALL, depth=2))
    world.send(embed(1, words(1, 40)))
    world.turn()
    world.send(embed(1, words(1, 40), epoch=1))
    world.run()
    assert list(world.out.heard) == [(1, 1)]
    world.assert_clean()


# ---------------------------------------------------------------------- resuming


@DEPTHS
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_a_request_goes_on_from_any_token(depth: int, temperature: float) -> None:
    sampling = SamplingParams(max_new_tokens=14, temperature=temperature)
    alone = World()
    alone.send(generate(1, words(1, 9), sampling=sampling))
    alone.run()
    output = alone.tokens(1)
    for count in range(len(output) + 1):
        world = World(replace(SMALL, depth=depth))
        world.send(generate(1, words(1, 9), sampling=sampling, epoch=1, committed=output[:count]))
        world.run()
        world.assert_exact()
        assert world.end(1).reason == alone.end(1).reason
        assert world.end(1).completion_tokens == len(output)
        assert bool(world.trail.steps) == (count < len(output))
        world.assert_clean()


@pytest.mark.parametrize(
    ("sampling", "committed", "reason"),
    [
        (SamplingParams(max_new_tokens=3), [65, 66, 67], FinishReason(kind="length")),
        (SamplingParams(max_new_tokens=2), [65, 66, 67], FinishReason(kind="length")),
        (SamplingParams(max_new_tokens=9), [65, EOS], FinishReason(kind="stop", matched=EOS)),
        (SamplingParams(max_new_tokens=9, stop_token_ids=(7,)), [65, 7], FinishReason(kind="stop", matched=7)),
    ],
)
def test_a_request_that_comes_back_complete_ends_at_once(
    sampling: SamplingParams, committed: list[int], reason: FinishReason
) -> None:
    world = World()
    world.send(generate(1, words(1, 9), sampling=sampling, epoch=4, committed=committed))
    world.run()
    assert (world.end(1).reason, world.out.tokens(1, 4)) == (reason, [])
    assert not world.trail.steps
    world.assert_clean()


def test_who_comes_back_after_a_loss_is_not_turned_away() -> None:
    """All that ran and all that waited come back together: more than ever waited at once."""
    world = World(replace(SMALL, num_slots=2, max_queued=3))
    world.send(*(generate(uid, words(uid, 5), 6, epoch=1) for uid in range(1, 8)))
    world.run()
    world.assert_exact()


# ---------------------------------------------------------------------- everything at once

SHAPES = {
    "normal": SMALL,
    "overlap": replace(SMALL, depth=2),
    "deep": replace(SMALL, depth=4, token_budget=40),
    "pipeline": replace(SMALL, depth=4, chained=False, stages=4),
    "tight": replace(SMALL, depth=2, num_pages=20, conservativeness=0.1),
    "retracting": replace(SMALL, depth=2, retract_every=3),
    "chunk cache": replace(SMALL, depth=2, cache="chunk", num_pages=40),
    "tokens as pages": replace(SMALL, depth=2, page_size=1, num_pages=200),
    "lpm": replace(SMALL, depth=2, policy="lpm"),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("seed", range(2))
def test_every_request_gives_what_it_gives_alone(name: str, seed: int) -> None:
    """Grammars, log-probabilities, adapters, tenants, stop tokens, losses: all of them at random moments."""
    rng = random.Random(seed)
    world = World(SHAPES[name])
    asks = workload(seed, Mix(requests=14, prompt=40, output=24, grammar=0.25, logprobs=0.25))
    for ask in asks:
        world.send(ask)
        world.turn(rng.randrange(3))
        if rng.random() < 0.3:  # a front that lost its detokenizer
            again = rng.choice(list(world.asked.values()))
            if world.out.reason(again.uid, again.epoch) is None:
                committed = column(world.tokens(again.uid))
                world.send(replace(again, epoch=again.epoch + 1, committed=committed))
    world.run()
    world.assert_exact()
    world.assert_clean()
