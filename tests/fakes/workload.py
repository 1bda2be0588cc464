"""Random requests, and what each must give when it runs alone."""

import random
from dataclasses import dataclass

import numpy as np

from banyan.wire.base import i32, make_uid
from banyan.wire.request import GrammarSpec, LogprobSpec, SamplingParams, TokenizedGenerateReqInput
from banyan.worker import utf8
from banyan.worker.oracle import EOS, Oracle
from tests.fakes.grammar import make_grammar


@dataclass(frozen=True, slots=True)
class Mix:
    """How a workload is made up."""

    requests: int = 12
    prompt: int = 40  # longest prompt
    output: int = 24  # most output tokens
    grammar: float = 0.0  # share with a grammar
    logprobs: float = 0.0  # share with log-probabilities
    adapters: float = 0.2  # share with an adapter


def workload(seed: int, mix: Mix) -> list[TokenizedGenerateReqInput]:
    """Make requests. Many share a prefix, some are twins, a few want no output or a single token."""
    rng = random.Random(seed)
    stems = [[rng.randrange(97, 123) for _ in range(mix.prompt)] for _ in range(3)]
    return [_request(rng, number, stems, mix) for number in range(mix.requests)]


def expected(request: TokenizedGenerateReqInput, oracle: Oracle) -> list[int]:
    """Generate the request's output alone, from the start."""
    spec = request.sampling.grammar
    return oracle.generate(
        i32(request.tokens).tolist(),
        request.sampling,
        request.seed,
        grammar=make_grammar(spec) if spec is not None else None,
        eos_ids=(EOS,),
        lora=request.lora,
    )


def expected_logprobs(
    request: TokenizedGenerateReqInput, output: list[int], oracle: Oracle
) -> tuple[list[float], list[float]]:
    """Give the log-probabilities of the prompt positions that were asked for, and of the output."""
    prompt_len = len(request.tokens) // 4
    tokens = np.concatenate([i32(request.tokens), np.array(output, np.int32)])
    origin = oracle.origin(request.lora)
    states = np.concatenate([np.array([origin], np.uint64), oracle.extend(origin, tokens)[:-1]])
    texts = np.concatenate([np.zeros(1, np.uint8), utf8.scan(utf8.WHOLE, tokens)[:-1]])
    table = oracle.logprobs(states, texts, np.arange(len(tokens), dtype=np.int32))
    values = table[np.arange(len(tokens)), tokens].tolist()
    start = request.logprobs.start if request.logprobs is not None else -1
    return values[start:prompt_len] if start >= 0 else [], values[prompt_len:]


def _request(rng: random.Random, number: int, stems: list[list[int]], mix: Mix) -> TokenizedGenerateReqInput:
    stem = rng.choice(stems)
    prompt = stem[: rng.randint(0, len(stem))]
    prompt += [rng.randrange(256) for _ in range(rng.randint(0 if prompt else 1, max(1, mix.prompt - len(prompt))))]
    return TokenizedGenerateReqInput(
        uid=make_uid(0, number + 1),
        rid=f"r{number}",
        tokens=np.array(prompt[: mix.prompt], np.int32).tobytes(),
        sampling=_sampling(rng, mix),
        seed=rng.randrange(2**63),
        stream=rng.random() < 0.5,
        logprobs=_logprobs(rng, len(prompt)) if rng.random() < mix.logprobs else None,
        lora=rng.choice("ab") if rng.random() < mix.adapters else "",
        salt=rng.choice(["", "tenant"]),
        priority=rng.randint(-2, 2),
    )


def _sampling(rng: random.Random, mix: Mix) -> SamplingParams:
    max_new = rng.choice([0, 1, 2, rng.randint(1, mix.output), rng.randint(1, mix.output), mix.output])
    stop = tuple(rng.sample(range(97, 123), rng.choice([0, 0, 1, 6]))) if rng.random() < 0.3 else ()
    grammar = rng.choice(["parity", f"digits:{rng.randint(1, 9)}"]) if rng.random() < mix.grammar else None
    return SamplingParams(
        max_new_tokens=max_new,
        min_new_tokens=rng.choice([0, 0, 0, 5]),
        temperature=rng.choice([0.0, 0.8]),
        stop_token_ids=stop,
        ignore_eos=rng.random() < 0.3,
        grammar=GrammarSpec(kind="regex", source=grammar) if grammar is not None else None,
    )


def _logprobs(rng: random.Random, prompt_len: int) -> LogprobSpec:
    return LogprobSpec(start=rng.choice([-1, 0, prompt_len // 2]), top=rng.choice([0, 2]))
