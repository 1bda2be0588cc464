"""Oracle: a model without weights, whose every token is a known function of all tokens before it.

The state of a sequence is a polynomial hash of its tokens, so one wrong, missing or misplaced token changes all that
follows. Text is valid UTF-8 in which one character in ten is split over several byte tokens. `generate` is the plain
loop, one request at a time: what every schedule of the same requests must reproduce.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from banyan.plan import U32, Grammar
from banyan.wire.base import F32, I32, Bool
from banyan.wire.request import SamplingParams
from banyan.worker import utf8
from banyan.worker.utf8 import U8

U64 = npt.NDArray[np.uint64]
EOS, BOS, PAD = 256, 257, 258
VOCAB_SIZE = utf8.NUM_TOKENS
MASK_WORDS = -(-VOCAB_SIZE // 32)
EMBEDDING_DIM = 8

_MAX = 2**64 - 1
_BASE = 0x9E3779B97F4A7C15  # odd, so it has an inverse modulo 2^64
_UNBASE = pow(_BASE, -1, 2**64)
_MIX_1, _MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_SEED_SALT = 0xD1B54A32D192ED03
_TOKEN_SALT = 0xA0761D6478BD642F
_LETTERS = b"eeeeettttaaaaooooiiinnnnssshhrrrddlluccmmwwffggyyppbbvkxjqz"
_ASCII = _LETTERS * 3 + b" " * 34 + b"\n" * 4 + b"ABDEHINRSTW.,"
_LEADS = b"\xc3\xe6\xf0"  # two-, three- and four-byte characters: accented letters, ideographs, emoji


def mix(words: U64) -> U64:
    """Scramble 64 bits so that every bit of the input reaches every bit of the output."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(_MIX_1)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(_MIX_2)
    return words ^ (words >> np.uint64(31))


def mix_one(word: int) -> int:
    """Do the same to a Python integer."""
    word = (word ^ (word >> 30)) * _MIX_1 & _MAX
    word = (word ^ (word >> 27)) * _MIX_2 & _MAX
    return word ^ (word >> 31)


def _choices() -> I32:
    """Lay out what may follow each text state, 256 equally likely entries a state."""
    table = np.zeros((utf8.NUM_STATES, 256), np.int32)
    ascii_bytes = np.frombuffer(_ASCII, np.uint8)
    leads = np.frombuffer(_LEADS, np.uint8)
    table[utf8.WHOLE] = np.where(np.arange(256) < 26, np.resize(leads, 256), np.resize(ascii_bytes, 256))
    for state in range(1, utf8.NUM_STATES):
        table[state] = np.resize(np.flatnonzero(utf8.VALID[state]), 256)
    table[utf8.OPEN_2] = np.resize(np.array([0x98, 0x9A]), 256)  # E6 98 .. and F0 9F 98 ..: assigned characters
    table[utf8.AFTER_F0] = 0x9F
    return table


_CHOICES = _choices()


def _typical() -> Bool:
    table = np.zeros((utf8.NUM_STATES, VOCAB_SIZE), np.bool_)
    np.put_along_axis(table, _CHOICES.astype(np.int64), True, axis=1)
    table[utf8.WHOLE, EOS] = True
    return table


_TYPICAL = _typical()  # [state, token]: what an unconstrained draw can give
_TOKENS: U64 = np.arange(1, VOCAB_SIZE + 1, dtype=np.uint64) * np.uint64(_TOKEN_SALT)


def _powers(factor: int, count: int) -> U64:
    factors = np.full(count, factor, np.uint64)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)


def allowed_tokens(mask: U32) -> Bool:
    """Unpack the mask of one row: one bit a token, lowest first."""
    return np.unpackbits(mask.astype("<u4").view(np.uint8), bitorder="little", count=VOCAB_SIZE).view(np.bool_)


class Oracle:
    """Next tokens, log-probabilities and vectors from (state, text state, seed, position)."""

    def __init__(self, eos_chance: float = 1 / 64) -> None:
        self._eos_below = round(eos_chance * 2**16)
        self._powers: U64 = np.ones(1, np.uint64)  # BASE^k
        self._inverses: U64 = np.ones(1, np.uint64)  # BASE^-k

    def origin(self, lora: str = "") -> int:
        """Return the state before the first token; an adapter changes everything that follows."""
        if not lora:
            return 0
        return int.from_bytes(hashlib.blake2b(lora.encode(), digest_size=8).digest(), "little")

    def extend(self, state: int, tokens: I32) -> U64:
        """Return the state after each of many tokens."""
        count = len(tokens)
        self._grow(count)
        # s_k = B^k (s_0 + sum of (t_j + 1) B^-j): one cumulative sum instead of a loop
        terms = (tokens.astype(np.uint64) + np.uint64(1)) * self._inverses[1 : count + 1]
        sums: U64 = np.cumsum(terms, dtype=np.uint64) + np.full(count, state, np.uint64)
        return sums * self._powers[1 : count + 1]

    def advance(self, states: U64, tokens: I32) -> U64:
        """Return each row's state after one more token."""
        return states * np.uint64(_BASE) + tokens.astype(np.uint64) + np.uint64(1)

    def draw(self, states: U64, texts: U8, seeds: U64, positions: I32, may_end: Bool) -> I32:
        """Draw the token at each row's position. A seed of 0 is a request that does not sample."""
        words = mix(states ^ mix(seeds + np.uint64(_SEED_SALT)) ^ positions.astype(np.uint64))
        tokens: I32 = _CHOICES[texts, words & np.uint64(0xFF)]
        ends = may_end & (texts == utf8.WHOLE) & (words >> np.uint64(48) < np.uint64(self._eos_below))
        tokens[ends] = EOS
        return tokens

    def choose(self, state: int, text: int, seed: int, position: int, allowed: Bool) -> int:
        """Draw among the allowed tokens: typical ones first, then any that keep the text valid, then any. -1: none."""
        word = _word(state, seed, position)
        order = mix(np.full(VOCAB_SIZE, word, np.uint64) ^ _TOKENS)
        for preferred in (_TYPICAL[text], utf8.VALID[text]):
            candidates = np.flatnonzero(allowed & preferred)
            if len(candidates):
                return int(candidates[np.argmin(order[candidates])])
        candidates = np.flatnonzero(allowed)
        return int(candidates[np.argmin(order[candidates])]) if len(candidates) else -1

    def logprobs(self, states: U64, texts: U8, positions: I32) -> F32:
        """Return [rows, vocabulary] log-probabilities; the token that greedy drawing gives has the highest."""
        noise = mix(mix(states + np.uint64(_TOKEN_SALT))[:, None] ^ _TOKENS[None, :]) >> np.uint64(40)
        unit = noise.astype(np.float32) / np.float32(2**24)
        values: F32 = np.float32(-1.0) - np.float32(9.0) * unit
        zeros = np.zeros(len(states), np.uint64)
        best = self.draw(states, texts, zeros, positions, np.ones(len(states), np.bool_))
        rows = np.arange(len(states))
        values[rows, best] = np.float32(-0.5) * unit[rows, best]
        return values

    def embeddings(self, states: U64) -> F32:
        """Return one vector of length 1 per state."""
        noise = mix(mix(states)[:, None] ^ _TOKENS[None, :EMBEDDING_DIM]) >> np.uint64(40)
        vectors: F32 = noise.astype(np.float32) / np.float32(2**23) - np.float32(1.0)
        lengths: F32 = np.sqrt(np.sum(vectors * vectors, axis=1, keepdims=True))
        vectors /= np.maximum(lengths, np.float32(1e-6))
        return vectors

    def generate(
        self,
        prompt: Sequence[int],
        sampling: SamplingParams,
        seed: int,
        *,
        grammar: Grammar | None = None,
        eos_ids: tuple[int, ...] = (EOS,),
        context_length: int | None = None,
        lora: str = "",
    ) -> list[int]:
        """Generate one request's output alone, token by token; the ending token is part of it. Uses the grammar up."""
        state, text = self.origin(lora), utf8.WHOLE
        for token in prompt:
            state, text = self._feed(state, text, token)
        limit = sampling.max_new_tokens
        if context_length is not None:
            limit = min(limit, context_length - len(prompt))
        ends = set(sampling.stop_token_ids) | (set() if sampling.ignore_eos else set(eos_ids))
        early = early_tokens(sampling)
        seed = seed if sampling.temperature > 0 else 0
        output: list[int] = []
        while len(output) < limit:
            banned = early if len(output) < sampling.min_new_tokens else None
            token = self._next(state, text, seed, len(prompt) + len(output), banned=banned, grammar=grammar)
            if token < 0:
                break
            output.append(token)
            if token in ends and len(output) > sampling.min_new_tokens:
                break
            if grammar is not None:
                grammar.accept(token)
            state, text = self._feed(state, text, token)
        return output

    def _feed(self, state: int, text: int, token: int) -> tuple[int, int]:
        return (state * _BASE + token + 1) & _MAX, int(utf8.AFTER[text, token])

    def _next(
        self, state: int, text: int, seed: int, position: int, *, banned: Bool | None, grammar: Grammar | None
    ) -> int:
        if grammar is not None:
            mask = np.zeros(MASK_WORDS, np.uint32)
            grammar.fill(mask)
            return self.choose(state, text, seed, position, unban(allowed_tokens(mask), banned))
        word = _word(state, seed, position)
        token = int(_CHOICES[text, word & 0xFF])
        if banned is None and text == utf8.WHOLE and word >> 48 < self._eos_below:
            return EOS
        if banned is not None and banned[token]:
            return self.choose(state, text, seed, position, ~banned)
        return token

    def _grow(self, count: int) -> None:
        """Keep tables of powers at least this long."""
        have = len(self._powers)
        if count < have:
            return
        size = max(count + 1, 2 * have)
        self._powers = _powers(_BASE, size)
        self._inverses = _powers(_UNBASE, size)


def _word(state: int, seed: int, position: int) -> int:
    return mix_one(state ^ mix_one(seed + _SEED_SALT & _MAX) ^ position)


def early_tokens(sampling: SamplingParams) -> Bool:
    """Tell which tokens may not come before `min_new_tokens` are there."""
    early = np.zeros(VOCAB_SIZE, np.bool_)
    early[EOS] = True
    early[[token for token in sampling.stop_token_ids if token < VOCAB_SIZE]] = True
    return early


def unban(allowed: Bool, banned: Bool | None) -> Bool:
    """Take the banned tokens out, unless that leaves nothing: a grammar's end outranks a least length."""
    if banned is None:
        return allowed
    rest = allowed & ~banned
    return rest if rest.any() else allowed
