"""Requests of a simulation, and the answer that each must get."""

import random
from dataclasses import dataclass

import numpy as np

from banyan.text.request import Request
from banyan.text.tokenizer import Tokenizer
from banyan.wire.base import i32, make_uid
from banyan.wire.request import (
    GrammarSpec,
    LogprobSpec,
    SamplingParams,
    TokenizedEmbeddingReqInput,
    TokenizedGenerateReqInput,
)
from banyan.worker.oracle import EOS, Oracle
from tests.fakes.workload import expected, expected_logprobs
from tests.simulation.processes import Answer

_STEM = b"In the beginning of every prompt stand the same words, so that there is a prefix to share."


@dataclass(frozen=True, slots=True)
class Expected:
    """The only right answer."""

    tokens: list[int]
    text: str
    vector: list[float] | None
    logprobs: list[float]


def make_request(rng: random.Random, front: int, number: int) -> Request:
    """Make a request. Prompts are ASCII: where a text begins inside a character is the detokenizer's own test."""
    prompt = _STEM[: rng.randint(0, 40)] + bytes(rng.choices(b"abcdefgh ", k=rng.randint(1, 12)))
    tokens = np.frombuffer(prompt, np.uint8).astype(np.int32).tobytes()
    uid = make_uid(front, number)
    if rng.random() < 0.08:
        return TokenizedEmbeddingReqInput(uid=uid, rid=str(uid), tokens=tokens)
    return TokenizedGenerateReqInput(
        uid=uid,
        rid=str(uid),
        tokens=tokens,
        sampling=_sampling(rng),
        seed=rng.randrange(2**63),
        stream=rng.random() < 0.7,
        logprobs=LogprobSpec(top=1) if rng.random() < 0.1 else None,
    )


def _sampling(rng: random.Random) -> SamplingParams:
    grammar = rng.choice(["parity", f"digits:{rng.randint(1, 9)}"]) if rng.random() < 0.15 else None
    stop = (rng.choice(["e", "th", "t ", "\n", "é"]),) if rng.random() < 0.25 else ()
    return SamplingParams(
        max_new_tokens=rng.choice([1, 2, rng.randint(1, 40), rng.randint(10, 40), 40]),
        min_new_tokens=0 if stop else rng.choice([0, 0, 6]),
        temperature=rng.choice([0.0, 0.8]),
        stop=stop,
        stop_token_ids=(0x71, 0x7A) if rng.random() < 0.1 else (),
        ignore_eos=rng.random() < 0.3,
        grammar=GrammarSpec(kind="regex", source=grammar) if grammar is not None else None,
    )


def answer_to(request: Request, oracle: Oracle, tokenizer: Tokenizer) -> Expected:
    """Work out the answer with no engine at all."""
    if isinstance(request, TokenizedEmbeddingReqInput):
        state = oracle.extend(oracle.origin(request.lora), i32(request.tokens))[-1:]
        return Expected([], "", oracle.embeddings(state)[0].tolist(), [])
    sampling = request.sampling
    tokens = expected(request, oracle)
    for stop in sampling.stop:
        for count in range(1, len(tokens) + 1):
            text = _text(tokens[:count], sampling, tokenizer, whole=count == len(tokens))
            if stop in text:
                tokens = tokens[:count]
                return Expected(tokens, text[: text.index(stop)], None, _logprobs(request, tokens, oracle))
    text = _text(tokens, sampling, tokenizer, whole=True)
    return Expected(tokens, text, None, _logprobs(request, tokens, oracle))


def _logprobs(request: TokenizedGenerateReqInput, tokens: list[int], oracle: Oracle) -> list[float]:
    return expected_logprobs(request, tokens, oracle)[1] if request.logprobs is not None else []


def _text(tokens: list[int], sampling: SamplingParams, tokenizer: Tokenizer, *, whole: bool) -> str:
    """Decode all at once. A token that ended the text is no part of it, nor is half a character before the end."""
    ends = {*sampling.stop_token_ids, *(() if sampling.ignore_eos else (EOS,))}
    if tokens and tokens[-1] in ends and len(tokens) > sampling.min_new_tokens:
        tokens = tokens[:-1]
    text = tokenizer.decode(tokens)
    return text if whole else text.rstrip("\ufffd")


def is_right(answer: Answer, right: Expected) -> bool:
    """Compare what a client was told with what it should have been told."""
    return (answer.tokens, answer.text, answer.vector, answer.logprobs) == (
        right.tokens,
        right.text,
        right.vector,
        right.logprobs,
    )
