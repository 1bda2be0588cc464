"""The oracle is deterministic, vectorised equals one by one, and its text is valid UTF-8."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banyan.plan import U32
from banyan.wire.base import Bool
from banyan.wire.request import SamplingParams
from banyan.worker import utf8
from banyan.worker.oracle import (
    EMBEDDING_DIM,
    EOS,
    MASK_WORDS,
    VOCAB_SIZE,
    Oracle,
    allowed_tokens,
    mix,
    mix_one,
    unban,
)

TOKENS = st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=60)
PROMPT = list(b"The quick brown fox")


class Digits:
    """A toy grammar: digits, and the end after the third."""

    def __init__(self) -> None:
        self.count = 0

    def accept(self, token: int) -> None:
        assert token == EOS or token in range(0x30, 0x3A)
        self.count += 1

    def fill(self, mask: U32) -> None:
        tokens = range(0x30, 0x3A) if self.count < 3 else (EOS,)
        for token in tokens:
            mask[token // 32] |= np.uint32(1 << token % 32)


@given(st.integers(0, 2**64 - 1))
def test_mix_is_the_same_for_arrays_and_integers(word: int) -> None:
    assert int(mix(np.array([word], np.uint64))[0]) == mix_one(word)


@given(TOKENS, TOKENS)
def test_extend_equals_advance_token_by_token(head: list[int], tail: list[int]) -> None:
    oracle = Oracle()
    state = np.zeros(1, np.uint64)
    expected = []
    for token in head + tail:
        state = oracle.advance(state, np.array([token], np.int32))
        expected.append(int(state[0]))
    first = oracle.extend(oracle.origin(), np.array(head, np.int32)).tolist()
    middle = first[-1] if first else oracle.origin()
    second = oracle.extend(middle, np.array(tail, np.int32)).tolist()
    assert first + second == expected


@given(TOKENS, st.integers(0, 59), st.integers(0, VOCAB_SIZE - 1))
def test_one_other_token_changes_every_later_state(tokens: list[int], place: int, other: int) -> None:
    if place >= len(tokens) or tokens[place] == other:
        return
    changed = [*tokens]
    changed[place] = other
    oracle = Oracle()
    before, after = (oracle.extend(0, np.array(t, np.int32)) for t in (tokens, changed))
    assert (before[:place] == after[:place]).all()
    assert (before[place:] != after[place:]).all()


def test_an_adapter_changes_the_states() -> None:
    oracle = Oracle()
    assert len({oracle.origin(), oracle.origin("a"), oracle.origin("b")}) == 3


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(8))
def test_generate_equals_vectorised_draws(seed: int, temperature: float) -> None:
    oracle = Oracle()
    sampling = SamplingParams(max_new_tokens=200, temperature=temperature, min_new_tokens=20)
    output = oracle.generate(PROMPT, sampling, seed)
    states = oracle.extend(0, np.array(PROMPT + output, np.int32))[len(PROMPT) - 1 : -1]
    texts = utf8.scan(0, np.array(PROMPT + output, np.int32))[len(PROMPT) - 1 : -1]
    positions = np.arange(len(PROMPT), len(PROMPT) + len(output), dtype=np.int32)
    seeds = np.full(len(output), seed if temperature else 0, np.uint64)
    assert oracle.draw(states, texts, seeds, positions, positions >= len(PROMPT) + 20).tolist() == output


def test_seed_matters_only_when_sampling() -> None:
    oracle = Oracle()
    greedy = [oracle.generate(PROMPT, SamplingParams(temperature=0.0), seed) for seed in (1, 2)]
    drawn = [oracle.generate(PROMPT, SamplingParams(temperature=0.5), seed) for seed in (1, 2)]
    assert greedy[0] == greedy[1]
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("seed", range(20))
def test_text_is_valid_utf8_with_some_long_characters(seed: int) -> None:
    output = Oracle().generate(PROMPT, SamplingParams(max_new_tokens=3000, ignore_eos=True), seed)
    whole = bytes(token for token in output if token < 256)
    text = whole[: whole.rfind(b" ")].decode()
    share = sum(ord(c) > 127 for c in text) / len(text)
    assert 0.07 < share < 0.14
    assert 0.005 < output.count(EOS) / len(output) < 0.03


def test_eos_never_splits_a_character() -> None:
    output = Oracle(eos_chance=0.5).generate(PROMPT, SamplingParams(max_new_tokens=2000, ignore_eos=True), 1)
    states = utf8.scan(0, np.array(output, np.int32))
    before_eos = [states[i - 1] for i in range(1, len(output)) if output[i] == EOS]
    assert len(before_eos) > 100
    assert set(before_eos) == {utf8.WHOLE}


def test_ends_with_eos_unless_told_not_to() -> None:
    oracle = Oracle(eos_chance=0.2)
    stopped = oracle.generate(PROMPT, SamplingParams(max_new_tokens=500), 1)
    assert stopped[-1] == EOS
    assert EOS not in stopped[:-1]
    ignored = oracle.generate(PROMPT, SamplingParams(max_new_tokens=500, ignore_eos=True), 1)
    assert ignored[: len(stopped)] == stopped
    assert len(ignored) == 500


def test_stop_tokens_are_included_and_wait_for_the_least_length() -> None:
    oracle = Oracle(eos_chance=0)
    sampling = SamplingParams(max_new_tokens=500, stop_token_ids=(0x20, 0x65), temperature=0)
    assert oracle.generate(PROMPT, sampling, 0)[-1] in (0x20, 0x65)
    least = SamplingParams(max_new_tokens=500, stop_token_ids=(0x20, 0x65), min_new_tokens=50, temperature=0)
    output = oracle.generate(PROMPT, least, 0)
    assert not set(output[:50]) & {0x20, 0x65}
    assert output[-1] in (0x20, 0x65)
    bytes(output).decode()


def test_limits_of_length() -> None:
    oracle = Oracle(eos_chance=0)
    assert oracle.generate(PROMPT, SamplingParams(max_new_tokens=0), 0) == []
    assert len(oracle.generate(PROMPT, SamplingParams(max_new_tokens=7), 0)) == 7
    assert len(oracle.generate(PROMPT, SamplingParams(max_new_tokens=99), 0, context_length=len(PROMPT) + 5)) == 5


def test_grammar_is_obeyed_and_its_end_outranks_the_least_length() -> None:
    sampling = SamplingParams(max_new_tokens=10, min_new_tokens=4)
    outputs = {tuple(Oracle().generate(PROMPT, sampling, seed, grammar=Digits())[:4]) for seed in range(20)}
    assert all(set(o[:3]) <= set(range(0x30, 0x3A)) and o[3] == EOS for o in outputs)
    assert len(outputs) > 10


def test_a_grammar_that_allows_nothing_ends_the_output() -> None:
    class Nothing(Digits):
        def fill(self, mask: U32) -> None:
            """Allow nothing."""

    assert Oracle().generate(PROMPT, SamplingParams(), 0, grammar=Nothing()) == []


@given(st.sets(st.integers(0, VOCAB_SIZE - 1)))
def test_masks_hold_a_bit_per_token(tokens: set[int]) -> None:
    mask: U32 = np.zeros(MASK_WORDS, np.uint32)
    for token in tokens:
        mask[token // 32] |= np.uint32(1 << token % 32)
    assert set(np.flatnonzero(allowed_tokens(mask)).tolist()) == tokens


def test_unban_leaves_something() -> None:
    allowed: Bool = np.array([True, True, False])
    assert unban(allowed, None).tolist() == [True, True, False]
    assert unban(allowed, np.array([True, False, False])).tolist() == [False, True, False]
    assert unban(allowed, np.array([True, True, False])).tolist() == [True, True, False]


def test_greedy_token_is_the_most_likely() -> None:
    oracle = Oracle()
    output = oracle.generate(PROMPT, SamplingParams(max_new_tokens=50, temperature=0), 0)
    sequence = np.array(PROMPT + output, np.int32)
    states, texts = oracle.extend(0, sequence), utf8.scan(0, sequence)
    before = slice(len(PROMPT) - 1, len(sequence) - 1)
    positions = np.arange(len(PROMPT), len(sequence), dtype=np.int32)
    values = oracle.logprobs(states[before], texts[before], positions)
    assert values.shape == (len(output), VOCAB_SIZE)
    assert values.argmax(axis=1).tolist() == output
    assert (values <= 0).all()


def test_embeddings_are_unit_vectors_of_the_state() -> None:
    vectors = Oracle().embeddings(np.array([1, 2, 1], np.uint64))
    assert vectors.shape == (3, EMBEDDING_DIM)
    assert np.allclose((vectors * vectors).sum(axis=1), 1.0)
    assert (vectors[0] == vectors[2]).all()
    assert not np.allclose(vectors[0], vectors[1])
