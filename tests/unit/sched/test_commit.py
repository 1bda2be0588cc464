"""Committer: tokens, ends, log-probabilities and vectors reach the right request, once, at every depth."""

import numpy as np
import pytest
from msgspec.structs import replace

from banyan.plan import U32
from banyan.wire.base import F32, f32, i32
from banyan.wire.output import FinishReason
from banyan.wire.request import LogprobSpec, SamplingParams
from banyan.worker import utf8
from banyan.worker.oracle import EOS
from tests.fakes.world import SMALL, World, embed, ending_prompt, generate, words

DEPTHS = pytest.mark.parametrize("depth", [1, 2, 4])


# ---------------------------------------------------------------------- ends


@DEPTHS
def test_end_of_text_ends_and_what_was_launched_after_it_is_ignored(depth: int) -> None:
    world = World(replace(SMALL, depth=depth))
    sampling = SamplingParams(max_new_tokens=100, temperature=0.0)
    for uid, length in enumerate((1, 2, 5, 9), start=1):
        world.send(generate(uid, ending_prompt(length), sampling=sampling))
    world.send(generate(9, words(9, 5), 30))
    world.run()
    world.assert_exact()
    for uid in range(1, 5):
        assert world.end(uid).reason == FinishReason(kind="stop", matched=EOS)
        assert world.tokens(uid)[-1] == EOS
    world.assert_clean()


@DEPTHS
def test_ignored_end_of_text_goes_on(depth: int) -> None:
    world = World(replace(SMALL, depth=depth))
    world.send(generate(1, ending_prompt(5), 20))
    world.run()
    assert len(world.tokens(1)) == 20
    assert EOS in world.tokens(1)
    assert world.end(1).reason.kind == "length"


@DEPTHS
@pytest.mark.parametrize("count", [1, 4, 5, 20])
def test_any_number_of_stop_tokens(depth: int, count: int) -> None:
    """The one that comes is the last of the list: with many, it is not in the column."""
    world = World(replace(SMALL, depth=depth))
    world.send(generate(1, words(1, 5), 30))
    world.run()
    stop = world.tokens(1)[6]
    others = [token for token in range(256) if token not in world.tokens(1)][: count - 1]
    sampling = SamplingParams(max_new_tokens=30, temperature=0.0, ignore_eos=True, stop_token_ids=(*others, stop))
    world.send(generate(2, words(1, 5), sampling=sampling), generate(3, words(3, 5), 20))
    world.run()
    assert world.end(2).reason == FinishReason(kind="stop", matched=stop)
    world.assert_exact()


@DEPTHS
def test_a_least_length_holds_the_end_back(depth: int) -> None:
    world = World(replace(SMALL, depth=depth))
    sampling = SamplingParams(max_new_tokens=40, min_new_tokens=12, temperature=0.0)
    world.send(generate(1, ending_prompt(3), sampling=sampling))
    world.run()
    world.assert_exact()
    assert len(world.tokens(1)) > 12


@DEPTHS
@pytest.mark.parametrize("length", [1, 15, 16, 17, 40])
def test_no_output_wanted_none_given(depth: int, length: int) -> None:
    world = World(replace(SMALL, depth=depth))
    world.send(generate(1, words(1, length), 0), generate(2, words(2, 5), 6))
    world.run()
    assert world.end(1).reason == FinishReason(kind="length")
    assert world.tokens(1) == []
    world.assert_exact()
    world.assert_clean()


@DEPTHS
def test_one_token_wanted_one_given(depth: int) -> None:
    world = World(replace(SMALL, depth=depth))
    world.send(*(generate(uid, words(uid, 14 + uid), 1) for uid in range(1, 6)))
    world.run()
    world.assert_exact()
    assert not any(len(step.decode_slots) for step in world.trail.steps)


# ---------------------------------------------------------------------- embeddings


@DEPTHS
@pytest.mark.parametrize("length", [1, 16, 17, 50])
def test_a_vector_is_that_of_the_whole_prompt(depth: int, length: int) -> None:
    world = World(replace(SMALL, depth=depth))
    prompts = {uid: words(uid, length) for uid in (1, 2, 3)}
    world.send(generate(9, words(9, 5), 12))
    world.send(*(embed(uid, prompt) for uid, prompt in prompts.items()))
    world.run()
    world.assert_exact(9)
    for uid, prompt in prompts.items():
        states = world.oracle.extend(0, np.asarray(prompt, np.int32))
        vector = world.out.heard[uid, 0].vector
        assert vector is not None
        assert np.array_equal(vector, world.oracle.embeddings(states[-1:])[0])
        assert world.end(uid).prompt_tokens == length
    world.assert_clean()


def test_an_embedding_reuses_a_cached_prefix() -> None:
    world = World()
    world.send(generate(1, words(1, 17), 4))
    world.run()
    world.send(embed(2, words(1, 17)))
    world.run()
    assert world.end(2).cached_tokens == 16
    assert world.out.heard[2, 0].vector is not None


# ---------------------------------------------------------------------- log-probabilities


def all_logprobs(world: World, tokens: list[int]) -> F32:
    """Give the whole table [position, token] of a sequence, computed one position after another."""
    column = np.asarray(tokens, np.int32)
    states = np.concatenate([np.zeros(1, np.uint64), world.oracle.extend(0, column)[:-1]])
    texts = np.concatenate([np.full(1, utf8.WHOLE, np.uint8), utf8.scan(utf8.WHOLE, column)[:-1]])
    return world.oracle.logprobs(states, texts, np.arange(len(tokens), dtype=np.int32))


def check_logprobs(world: World, uid: int, spec: LogprobSpec) -> None:
    """Compare every number that was reported with the table."""
    ask = world.asked[uid]
    prompt, output = i32(ask.tokens).tolist(), world.tokens(uid)
    sequence, heard = [*prompt, *output], world.out.heard[uid, ask.epoch]
    table = all_logprobs(world, sequence)
    own = table[np.arange(len(sequence)), sequence]
    first_new = len(prompt) + heard.start
    assert np.allclose(heard.logprobs, own[first_new:])
    if spec.start < 0:
        assert heard.prompt_logprobs == []
    else:
        assert np.allclose(heard.prompt_logprobs, own[spec.start : len(prompt)])
    top_ids = np.concatenate([i32(row.top_ids) for row in heard.logprob_rows]).reshape(-1, spec.top)
    top_values = np.concatenate([f32(row.top_values) for row in heard.logprob_rows]).reshape(-1, spec.top)
    best = np.argsort(-table[first_new:], axis=1, kind="stable")[:, : spec.top]
    assert np.array_equal(top_ids, best)
    assert np.allclose(top_values, np.take_along_axis(table[first_new:], best, 1))
    chosen = np.concatenate([f32(row.chosen) for row in heard.logprob_rows]).reshape(-1, len(spec.token_ids))
    assert np.allclose(chosen, table[first_new:, list(spec.token_ids)])


SPECS = pytest.mark.parametrize(
    "spec",
    [
        LogprobSpec(start=-1, top=2, token_ids=(65, 66)),
        LogprobSpec(start=0, top=1, token_ids=(65,)),
        LogprobSpec(start=9, top=3, token_ids=(65,)),
    ],
    ids=["output", "all", "tail"],
)


@DEPTHS
@SPECS
@pytest.mark.parametrize("retract_every", [0, 3])
@pytest.mark.parametrize("stream", [True, False])
def test_logprobs_under_chunks_and_retractions(depth: int, spec: LogprobSpec, retract_every: int, stream: bool) -> None:
    world = World(replace(SMALL, depth=depth, token_budget=7, retract_every=retract_every))
    world.send(generate(9, words(2, 20), 4))
    world.run()  # part of the prompt is cached: what is asked for must be computed all the same
    for uid in (1, 2, 3):
        world.send(generate(uid, words(uid, 20), 9, logprobs=spec, stream=stream))
    world.run()
    world.assert_exact()
    assert bool(world.roster.retractions) == bool(retract_every)
    for uid in (1, 2, 3):
        check_logprobs(world, uid, spec)


@DEPTHS
@SPECS
def test_logprobs_of_a_resumed_request_are_those_of_its_new_tokens(depth: int, spec: LogprobSpec) -> None:
    world = World(replace(SMALL, depth=depth, token_budget=7))
    world.send(generate(1, words(1, 20), 9, logprobs=spec))
    world.turn(7)
    heard = list(world.tokens(1))
    world.send(generate(1, words(1, 20), 9, logprobs=spec, epoch=1, committed=heard))
    world.run()
    world.assert_exact()
    check_logprobs(world, 1, spec)


def test_logprobs_of_a_prompt_that_wants_no_output() -> None:
    world = World(replace(SMALL, token_budget=7))
    world.send(generate(1, words(1, 20), 0, logprobs=LogprobSpec(start=3)))
    world.run()
    heard = world.out.heard[1, 0]
    table = all_logprobs(world, words(1, 20))
    assert np.allclose(heard.prompt_logprobs, table[np.arange(20), words(1, 20)][3:])
    assert heard.logprobs == []


# ---------------------------------------------------------------------- hidden states


def check_hidden_states(world: World, uid: int) -> None:
    """Compare the states of all tokens that were heard with those of the sequence fed at once."""
    ask = world.asked[uid]
    prompt, heard = i32(ask.tokens), world.out.heard[uid, ask.epoch]
    sequence = np.concatenate([prompt, np.asarray(world.tokens(uid), np.int32)])
    states = world.oracle.embeddings(world.oracle.extend(0, sequence))
    assert np.array_equal(heard.hidden_states, states[len(prompt) + heard.start - 1 : -1])


@DEPTHS
@pytest.mark.parametrize("retract_every", [0, 3])
@pytest.mark.parametrize("stream", [True, False])
def test_hidden_states_under_chunks_and_retractions(depth: int, retract_every: int, stream: bool) -> None:
    world = World(replace(SMALL, depth=depth, token_budget=7, retract_every=retract_every))
    world.send(*(generate(uid, words(uid, 20), 9, hidden_states=uid < 4, stream=stream) for uid in (1, 2, 3, 4)))
    world.run()
    world.assert_exact()
    assert bool(world.roster.retractions) == bool(retract_every)
    for uid in (1, 2, 3):
        check_hidden_states(world, uid)
    assert world.out.heard[4, 0].hidden_states == []


@DEPTHS
def test_hidden_states_of_a_resumed_request_are_those_of_its_new_tokens(depth: int) -> None:
    world = World(replace(SMALL, depth=depth, token_budget=7))
    world.send(generate(1, words(1, 20), 9, hidden_states=True))
    world.turn(9)
    heard = list(world.tokens(1))
    assert heard
    world.send(generate(1, words(1, 20), 9, hidden_states=True, epoch=1, committed=heard))
    world.run()
    world.assert_exact()
    check_hidden_states(world, 1)


# ---------------------------------------------------------------------- grammar


class Tantrum:
    """A grammar that allows everything and then refuses what it allowed."""

    def __init__(self, count: int) -> None:
        self._left = count

    def accept(self, token: int) -> None:
        """Lose patience."""
        self._left -= 1
        if not self._left:
            raise ValueError(f"not {token}")

    def fill(self, mask: U32) -> None:
        """Allow everything."""
        mask[:] = 0xFFFFFFFF


@DEPTHS
def test_output_that_leaves_its_grammar_ends_one_request(depth: int) -> None:
    world = World(replace(SMALL, depth=depth))
    world.send(*(generate(uid, words(uid, 5), 12) for uid in (1, 2)))
    world.scheduler.receive(generate(3, words(3, 5), 12, grammar="parity"), 0.0)
    world.roster.requests[3].grammar = Tantrum(4)
    world.run()
    reason = world.out.reason(3)
    assert reason is not None
    assert (reason.kind, reason.status) == ("error", 500)
    assert "left the grammar" in reason.message
    world.assert_exact(1, 2)
    world.assert_clean()


# ---------------------------------------------------------------------- counts


@DEPTHS
def test_totals_count_every_token_once(depth: int) -> None:
    world = World(replace(SMALL, depth=depth, retract_every=4))
    world.send(*(generate(uid, words(uid, 10), 8) for uid in range(1, 6)), embed(9, words(9, 12)))
    world.run()
    info = world.scheduler.info()
    assert (info.prompt_tokens, info.output_tokens) == (5 * 10 + 12, 5 * 8)
    assert info.retractions > 0


@DEPTHS
def test_times_of_a_request_add_up(depth: int) -> None:
    world = World(replace(SMALL, depth=depth, num_slots=1))
    world.send(generate(1, words(1, 8), 10), generate(2, words(2, 8), 10))
    world.run()
    first, second = world.end(1), world.end(2)
    assert first.queue_s == 0.0
    assert second.queue_s >= first.prefill_s + first.decode_s
    assert second.decode_s > 0.0
    assert second.queue_s + second.prefill_s + second.decode_s <= world.clock.now()
