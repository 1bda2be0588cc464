"""PrefillAdder: chunks, the token budget, who is admitted, and prefixes computed once."""

import numpy as np
import pytest
from msgspec.structs import replace

from banyan.memory.ledger.cache import RadixCache, make_cache
from banyan.sched.budget import NewTokenRatio
from banyan.sched.isolation import Isolation
from banyan.sched.limits import Limits, Policy
from banyan.sched.prefill import PrefillAdder
from banyan.sched.req import Req
from banyan.sched.roles import Unified
from banyan.sched.roster import Roster
from banyan.sched.scheduler import Scheduler
from banyan.wire.control import CloseSessionReqInput
from banyan.wire.request import TokenizedEmbeddingReqInput
from tests.fakes.world import SMALL, World, abort, embed, generate, words

DEPTHS = pytest.mark.parametrize("depth", [1, 2, 4])


def chunks(world: World) -> list[int]:
    """List the lengths of all extend rows."""
    return [int(length) for step in world.trail.steps for length in step.extend_lengths]


def admitted(world: World) -> list[int]:
    """List the requests in the order of their admissions."""
    return [admission.uid for step in world.trail.steps for admission in step.admissions]


# ---------------------------------------------------------------------- chunks


@pytest.mark.parametrize(
    ("length", "budget", "expected"),
    [
        (16, 16, [16]),
        (17, 16, [16, 1]),
        (37, 16, [16, 16, 5]),
        (37, 10, [8, 8, 8, 8, 5]),  # whole pages, so that they can be shared at once
        (37, 3, [3] * 12 + [1]),  # less than a page at a time
        (37, 256, [37]),
    ],
)
def test_a_prompt_is_cut_at_pages(length: int, budget: int, expected: list[int]) -> None:
    world = World(replace(SMALL, token_budget=budget))
    world.send(generate(1, words(1, length), 3))
    world.run()
    assert chunks(world) == expected
    samples = [bool(flag) for step in world.trail.steps for flag in step.extend_samples]
    assert samples == [False] * (len(expected) - 1) + [True]
    world.assert_exact()


@DEPTHS
@pytest.mark.parametrize("page_size", [1, 4, 16])
@pytest.mark.parametrize("budget", [1, 7, 32])
def test_chunks_change_no_token(depth: int, page_size: int, budget: int) -> None:
    world = World(replace(SMALL, depth=depth, page_size=page_size, num_pages=512 // page_size, token_budget=budget))
    lengths = [1, page_size, page_size + 1, 31, 32, 33, 47]
    world.send(*(generate(uid, words(uid, length), 6) for uid, length in enumerate(lengths, start=1)))
    world.run()
    world.assert_exact()
    assert world.extend_tokens() == sum(lengths)
    world.assert_clean()


@DEPTHS
def test_a_long_prompt_never_starves_running_requests(depth: int) -> None:
    """Every step carries all running rows, and prompt tokens only fill the rest of the budget."""
    world = World(replace(SMALL, depth=depth, num_pages=128, context_length=300))
    world.send(*(generate(uid, words(uid, 5), 60) for uid in (1, 2, 3)))
    world.turn(4)
    world.send(generate(9, words(9, 200), 2))
    world.turn(12)
    fed = [step for step in world.trail.steps if step.num_extend and step.num_extend == 1 and not step.admissions]
    assert len(fed) >= 10
    for step in fed:
        assert len(step.decode_slots) == 3
        assert step.num_tokens <= SMALL.token_budget
    world.run()
    world.assert_exact()


def test_no_step_carries_more_than_the_budget() -> None:
    world = World(replace(SMALL, num_pages=256, num_slots=20))
    world.send(*(generate(uid, words(uid, 3 + uid), 10) for uid in range(1, 30)))
    world.run()
    assert max(step.num_tokens for step in world.trail.steps) <= SMALL.token_budget
    world.assert_exact()


def test_a_batch_as_large_as_the_budget_leaves_none_for_prompts() -> None:
    world = World(replace(SMALL, token_budget=4, num_pages=256))
    world.send(*(generate(uid, words(uid, 4), 12) for uid in range(1, 9)))
    world.run()
    assert max(step.num_tokens for step in world.trail.steps) == 4
    world.assert_exact()


# ---------------------------------------------------------------------- shared prefixes

SUFFIX = 3


def twins(count: int, prefix: int, *, salts: int = 1, loras: int = 1) -> World:
    """Let requests with a cold common prefix arrive together in a roomy server."""
    world = World(replace(SMALL, num_pages=512, num_slots=16, token_budget=34))  # 34 leaves a few tokens over
    shared = words(99, prefix)
    for uid in range(1, count + 1):
        prompt = [*shared, *words(uid, SUFFIX)]
        world.send(generate(uid, prompt, 5, salt=f"tenant{uid % salts}", lora="abc"[uid % loras]))
    return world


@pytest.mark.parametrize("prefix", [8, 16, 24, 32, 40, 100, 200])
def test_twins_that_arrive_together_compute_their_prefix_once(prefix: int) -> None:
    world = twins(8, prefix)
    world.run()
    rest = prefix % SMALL.page_size + SUFFIX  # what no page boundary lets them share
    assert world.extend_tokens() == prefix + 8 * rest - prefix % SMALL.page_size
    world.assert_exact()
    world.assert_clean()


@DEPTHS
@pytest.mark.parametrize("prefix", [20, 100])
def test_twins_share_at_every_depth(depth: int, prefix: int) -> None:
    world = World(replace(SMALL, depth=depth, num_pages=512, token_budget=32))
    shared = words(99, prefix)
    world.send(*(generate(uid, [*shared, uid], 5) for uid in range(1, 7)))
    world.run()
    assert world.extend_tokens() == prefix + 6
    world.assert_exact()


def test_embeddings_share_too() -> None:
    world = World(replace(SMALL, num_pages=256, token_budget=34))
    shared = words(99, 50)
    world.send(*(embed(uid, [*shared, *words(uid, SUFFIX)]) for uid in range(1, 6)))
    world.run()
    assert world.extend_tokens() == 48 + 5 * (2 + SUFFIX)
    assert [world.end(uid).cached_tokens for uid in range(1, 6)] == [0, 48, 48, 48, 48]


def test_identical_prompts_compute_all_but_their_last_page_once() -> None:
    world = World(replace(SMALL, num_pages=256, token_budget=64))
    world.send(*(generate(uid, words(5, 16), 5) for uid in range(1, 6)))
    world.run()
    assert world.extend_tokens() == 16 + 4 * 4  # at least one token is computed: so a whole page is
    world.assert_exact()


@pytest.mark.parametrize(("salt", "lora"), [("tenant", ""), ("", "adapter")])
def test_equal_prompts_that_may_not_share_do_not_wait_for_each_other(salt: str, lora: str) -> None:
    world = World(replace(SMALL, num_pages=256, token_budget=34))
    shared = words(99, 70)
    world.send(generate(1, shared, 4), generate(2, shared, 4, salt=salt, lora=lora), generate(3, words(3, 20), 4))
    world.run()
    assert admitted(world) == [1, 2, 3]
    world.assert_exact()


def test_strangers_are_not_held_up_by_twins() -> None:
    world = World(replace(SMALL, num_pages=256, token_budget=34))
    shared = words(99, 70)
    world.send(generate(1, [*shared, 1], 4), generate(2, [*shared, 2], 4), generate(3, words(3, 20), 4))
    world.run()
    assert admitted(world) == [1, 3, 2]  # 2 waits for what 1 computes; the budget left over is for 3
    assert world.end(2).cached_tokens == 68


def test_a_twin_takes_over_when_the_one_ahead_is_aborted() -> None:
    world = World(replace(SMALL, num_pages=256, token_budget=32))
    shared = words(99, 100)
    world.send(generate(1, [*shared, 1], 4), generate(2, [*shared, 2], 4))
    world.turn(2)
    world.send(abort(1))
    world.run()
    world.assert_exact(2)
    assert world.end(2).cached_tokens == 64


def test_tenants_and_adapters_never_share() -> None:
    for parts in ({"salts": 3}, {"loras": 3}):
        world = twins(3, 40, **parts)
        world.run()
        assert world.extend_tokens() == 3 * 43
        assert [world.end(uid).cached_tokens for uid in (1, 2, 3)] == [0, 0, 0]
        world.assert_exact()


def test_without_a_radix_cache_nothing_is_shared() -> None:
    world = World(replace(SMALL, cache="chunk", num_pages=256))
    world.send(*(generate(uid, words(5, 20), 5) for uid in range(1, 5)))
    world.run()
    assert world.extend_tokens() == 4 * 20
    world.assert_exact()
    world.assert_clean()


def test_a_later_request_reuses_what_an_earlier_one_wrote() -> None:
    world = World()
    world.send(generate(1, words(1, 17), 8))
    world.run()
    world.send(generate(2, [*words(1, 17), *world.tokens(1), 5], 4))
    world.run()
    assert world.end(2).cached_tokens == 24  # 17 + 8 tokens, of which the last was never fed
    world.assert_exact()


# ---------------------------------------------------------------------- room


@pytest.mark.parametrize(("prompt", "output"), [(64, 1), (64, 0), (63, 2), (1, 64), (60, 5)])
def test_a_request_that_fills_the_whole_pool_runs(prompt: int, output: int) -> None:
    world = World(replace(SMALL, num_pages=16))
    world.send(generate(1, words(1, prompt), output))
    world.run()
    world.assert_exact()
    assert world.roster.retractions == 0


def test_an_embedding_that_fills_the_whole_pool_runs() -> None:
    world = World(replace(SMALL, num_pages=16))
    world.send(embed(1, words(1, 64)))
    world.run()
    assert world.end(1).reason.kind == "length"


def test_a_request_that_fills_the_pool_runs_among_others() -> None:
    world = World(replace(SMALL, num_pages=16))
    world.send(*(generate(uid, words(uid, 10), 10) for uid in (1, 2)))
    world.send(generate(3, words(3, 64), 1))
    world.send(*(generate(uid, words(uid, 10), 10) for uid in (4, 5)))
    world.run()
    world.assert_exact()


def test_nobody_overtakes_a_request_that_waits_for_memory() -> None:
    world = World(replace(SMALL, num_pages=16, token_budget=64))
    world.send(generate(1, words(1, 24), 8))
    world.turn()
    world.send(generate(2, words(2, 50), 8), generate(3, words(3, 4), 4))
    world.run()
    assert admitted(world) == [1, 2, 3]
    world.assert_exact()


def test_who_found_no_room_is_tried_again_when_memory_comes_back() -> None:
    """Nobody who runs has ended meanwhile: the pages are those of a session that was closed."""
    world = World(replace(SMALL, num_pages=24, token_budget=64))
    world.send(generate(1, words(1, 40), 4, session="s"))
    world.run()
    world.send(generate(2, words(2, 8), 30), generate(3, words(3, 32), 4))
    world.turn(3)
    assert admitted(world) == [1, 2]
    world.send(CloseSessionReqInput(front=0, call=1, id="s"))
    world.turn()
    assert admitted(world) == [1, 2, 3]
    world.run()
    world.assert_exact()


def test_the_one_that_may_enter_is_found_behind_any_number_of_those_held_back() -> None:
    limits = Limits(num_slots=2, context_length=64, token_budget=16)
    roster = Roster(limits, RadixCache(64, 4, 2, 16))
    isolation = Isolation()
    adder = PrefillAdder(roster, NewTokenRatio(1.0), isolation)
    for number in range(1, 2001):
        roster.enqueue(Req(generate(number, words(number, 4)), number, 0.0, 9.0))
    isolation.crashed(set(range(1, 2001)), set(), complete=True)
    assert isolation.holds_back(1000)
    assert not isolation.holds_back(1001)
    rows = adder.plan(16, Unified(roster), 0.0)
    assert [req.number for req in rows.reqs] == [1001, 1002]


def test_no_more_run_than_there_are_slots() -> None:
    world = World(replace(SMALL, num_slots=3))
    world.send(*(generate(uid, words(uid, 4), 6) for uid in range(1, 11)))
    world.run()
    assert max(step.num_rows for step in world.trail.steps) == 3
    world.assert_exact()


def test_admission_sets_aside_what_the_running_may_still_write() -> None:
    """Two such requests fit only if both stop early; the second waits, and nobody is retracted."""
    world = World(replace(SMALL, num_pages=16, token_budget=64, conservativeness=2.0))
    world.send(generate(1, words(1, 8), 40), generate(2, words(2, 8), 40))
    world.run()
    assert world.roster.retractions == 0
    world.assert_exact()


# ---------------------------------------------------------------------- order


def served(policy: Policy, **parts: list[int]) -> list[int]:
    """Let requests wait behind a running one in the only slot, and list them as they are admitted."""
    world = World(replace(SMALL, num_slots=1, policy=policy, token_budget=64))
    world.send(generate(99, words(99, 8), 4))
    world.turn()
    outputs = parts.get("outputs", [4] * 4)
    priorities = parts.get("priorities", [0] * 4)
    for uid, (output, priority) in enumerate(zip(outputs, priorities, strict=True), start=1):
        world.send(generate(uid, words(uid, 8), output, priority=priority))
    world.run()
    world.assert_exact()
    return admitted(world)[1:]


def test_requests_are_served_in_the_order_of_the_policy() -> None:
    assert served("fcfs", outputs=[3, 9, 1, 5]) == [1, 2, 3, 4]
    assert served("lof", outputs=[3, 9, 1, 5]) == [2, 4, 1, 3]
    assert served("priority", priorities=[0, -1, 7, 0]) == [3, 1, 4, 2]
    assert sorted(served("random")) == [1, 2, 3, 4]


@pytest.mark.parametrize("policy", ["lpm", "dfs-weight"])
def test_cache_aware_policies_serve_what_is_cached_first(policy: Policy) -> None:
    world = World(replace(SMALL, num_slots=1, policy=policy, token_budget=64))
    cached = words(99, 16)
    world.send(generate(99, cached, 4))
    world.turn()
    world.send(generate(1, words(1, 16), 4), generate(2, [*cached, 1], 4), generate(3, [*cached, 2], 4))
    world.run()
    assert admitted(world)[1:] == [2, 3, 1]
    world.assert_exact()


def test_a_request_ages_past_a_stream_of_better_cached_ones() -> None:
    world = World(replace(SMALL, num_slots=1, policy="lpm", token_budget=64))
    cached = words(99, 16)
    world.send(generate(99, cached, 4))
    world.turn()
    world.send(generate(1, words(1, 16), 4))
    for uid in range(100, 400, 2):
        world.send(generate(uid, [*cached, uid % 250], 4), generate(uid + 1, [*cached, uid % 250], 4))
        world.turn(5)
        if 1 in admitted(world):
            break
        world.clock.sleep_until(world.clock.now() + 0.4)
    assert 10.0 <= world.clock.now() < 11.0
    assert len(world.roster.queue) > 5  # better cached ones were waiting all the time


def test_prompts_that_cannot_be_cut_go_whole_one_after_the_other() -> None:
    limits = Limits(num_slots=4, context_length=64, token_budget=8, whole_prompts=True)
    scheduler = Scheduler(limits, make_cache("chunk", 32, 4, 4, 16))
    for uid, length in enumerate((10, 5, 3)):
        tokens = np.arange(length, dtype=np.int32).tobytes()
        scheduler.receive(TokenizedEmbeddingReqInput(uid=uid, rid="", tokens=tokens), 0.0)
    lengths = []
    while (step := scheduler.plan(0.0)) is not None:
        lengths.append(step.extend_lengths.tolist())
        assert step.extend_starts.tolist() == [0] * len(step.extend_starts)
    assert lengths == [[10], [5, 3]]
