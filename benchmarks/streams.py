"""Streams whose outputs are known in advance, and the ledger of what a client really got: the only judge of a fault."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import numpy as np
from msgspec.structs import replace

from banyan.engine import Engine
from banyan.text.request import mix_seed
from banyan.text.result import MetaInfo, Output
from banyan.wire.base import F32
from banyan.wire.request import SamplingParams
from banyan.worker import utf8
from banyan.worker.oracle import EOS, Oracle

TEXT = "a banyan grows down from its branches until nobody can tell which of its stems came first"
WORDS = TEXT.split()


@dataclass(frozen=True, slots=True)
class Ask:
    """A request and what must come of it: the tokens and the text of each output."""

    input_ids: list[int]
    sampling: SamplingParams
    return_logprob: bool
    tokens: tuple[list[int], ...]
    texts: tuple[str, ...]


@dataclass(slots=True)
class Ledger:
    """What a client got for one request: each output as it grew, when, and what was wrong with it."""

    ask: Ask
    outputs: dict[int, Output] = field(default_factory=dict)
    arrivals: list[float] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Tell whether anything is wrong with the answer."""
        return bool(self.findings)

    @property
    def missing(self) -> int:
        """Count the tokens that should have come and did not."""
        return sum(max(0, len(tokens) - self._count(index)) for index, tokens in enumerate(self.ask.tokens))

    @property
    def repeated(self) -> int:
        """Count the tokens that came beyond those that should have."""
        return sum(max(0, self._count(index) - len(tokens)) for index, tokens in enumerate(self.ask.tokens))

    def silence_s(self, since: float) -> float:
        """Return the longest time between two chunks, of which the second came after a moment."""
        return max((late - early for early, late in pairwise(self.arrivals) if late > since), default=0.0)

    def _count(self, index: int) -> int:
        return len(self.outputs[index]["output_ids"]) if index in self.outputs else 0

    def num_tokens(self) -> int:
        """Count the tokens so far."""
        return sum(len(output["output_ids"]) for output in self.outputs.values())

    def take(self, chunk: Output) -> None:
        """Enter a chunk. It must continue what came before."""
        self.arrivals.append(time.monotonic())
        index = chunk.get("index", 0)
        before = self.outputs.get(index)
        if before is not None:
            kept = len(before["output_ids"])
            if chunk["output_ids"][:kept] != before["output_ids"] or not chunk["text"].startswith(before["text"]):
                self.findings.append(f"output {index} was changed after it had been sent")
        self.outputs[index] = chunk

    def close(self) -> None:
        """Compare the whole answer with what must come."""
        for index, (tokens, text) in enumerate(zip(self.ask.tokens, self.ask.texts, strict=True)):
            output = self.outputs.get(index)
            if output is None:
                self.findings.append(f"output {index} never came")
                continue
            meta = output["meta_info"]
            reason = meta["finish_reason"]
            if reason is None or reason["type"] not in ("stop", "length"):
                self.findings.append(f"output {index} ended with {reason}")
            if output["output_ids"] != tokens:
                self.findings.append(f"output {index}: {_difference(output['output_ids'], tokens)}")
            elif output["text"] != text:
                self.findings.append(f"output {index} has the right tokens and another text")
            if meta["completion_tokens"] != len(tokens):
                self.findings.append(f"output {index} counts {meta['completion_tokens']} of {len(tokens)} tokens")
            if self.ask.return_logprob:
                self._close_logprobs(index, meta)

    def _close_logprobs(self, index: int, meta: MetaInfo) -> None:
        values = [value for value, _, _ in meta["output_token_logprobs"]]
        if not np.array_equal(np.asarray(values, np.float32), logprobs(self.ask.input_ids, self.ask.tokens[index])):
            self.findings.append(f"output {index} has wrong log-probabilities")


def make_ask(prompt: str, sampling: SamplingParams, *, return_logprob: bool = False) -> Ask:
    """Work out what a request must give, one output at a time."""
    input_ids = list(prompt.encode())
    outputs = [_expected(input_ids, sampling, copy) for copy in range(sampling.n)]
    return Ask(
        input_ids,
        sampling,
        return_logprob,
        tuple(tokens for tokens, _ in outputs),
        tuple(text for _, text in outputs),
    )


def mixed_asks(count: int, num_tokens: int, seed: int) -> list[Ask]:
    """Mix requests: 40 % greedy, 30 % seeded, 15 % four outputs with log-probabilities, the rest with stops."""
    random = Random(seed)
    asks = []
    for number in range(count):
        prompt = f"{number} " + " ".join(random.choices(WORDS, k=random.randint(4, 40)))
        length = random.randint(num_tokens // 2, num_tokens)
        plain = SamplingParams(max_new_tokens=length, ignore_eos=True, sampling_seed=random.getrandbits(60))
        asks.append(_mixed_ask(number % 20, prompt, plain))
    random.shuffle(asks)
    return asks


def _mixed_ask(kind: int, prompt: str, plain: SamplingParams) -> Ask:
    greedy = replace(plain, temperature=0.0)
    half = plain.max_new_tokens // 2
    if kind < 8:
        return make_ask(prompt, greedy)
    if kind < 14:
        return make_ask(prompt, plain)
    if kind < 17:
        return make_ask(prompt, replace(plain, n=4), return_logprob=True)
    if kind < 18:
        return make_ask(prompt, replace(greedy, stop=("zz", "qu")))
    if kind < 19:
        return make_ask(prompt, replace(plain, ignore_eos=False, min_new_tokens=half))
    return make_ask(prompt, replace(greedy, stop_token_ids=(ord("x"),), min_new_tokens=half))


async def run_streams(engine: Engine, ledgers: Sequence[Ledger], during: Callable[[], None] | None = None) -> None:
    """Stream all requests at once. `during` is called in a thread when they are under way."""
    tasks = [asyncio.create_task(_run_stream(engine, ledger)) for ledger in ledgers]
    if during is not None:
        await asyncio.to_thread(during)
    await asyncio.gather(*tasks)


async def _run_stream(engine: Engine, ledger: Ledger) -> None:
    ask = ledger.ask
    chunks = await engine.async_generate(
        input_ids=ask.input_ids, sampling_params=ask.sampling, stream=True, return_logprob=ask.return_logprob
    )
    async for chunk in chunks:
        ledger.take(chunk)
    ledger.close()


def logprobs(input_ids: list[int], output_ids: list[int]) -> F32:
    """Return the log-probability of each output token."""
    oracle = Oracle()
    tokens = np.asarray(input_ids + output_ids, np.int32)
    states, texts = oracle.extend(oracle.origin(), tokens), utf8.scan(utf8.WHOLE, tokens)
    before = slice(len(input_ids) - 1, len(tokens) - 1)
    positions = np.arange(len(input_ids), len(tokens), dtype=np.int32)
    rows = oracle.logprobs(states[before], texts[before], positions)
    values: F32 = rows[np.arange(len(output_ids)), output_ids]
    return values


def _expected(input_ids: list[int], sampling: SamplingParams, copy: int) -> tuple[list[int], str]:
    given = sampling.sampling_seed or 0
    tokens = Oracle().generate(input_ids, sampling, mix_seed(given, copy) if copy else given)
    for count in range(1, len(tokens) + 1 if sampling.stop else 0):
        text = _text(tokens[:count])
        places = [place for stop in sampling.stop if (place := text.find(stop)) >= 0]
        if places:
            return tokens[:count], text[: min(places)]
    ends = {*sampling.stop_token_ids, *(() if sampling.ignore_eos else (EOS,))}
    stopped = tokens[-1] in ends and len(tokens) > sampling.min_new_tokens
    return tokens, _text(tokens[:-1] if stopped else tokens)


def _text(tokens: list[int]) -> str:
    return bytes(token for token in tokens if token < 256).decode(errors="replace")


def _difference(got: list[int], expected: list[int]) -> str:
    same = next((at for at, pair in enumerate(zip(got, expected, strict=False)) if pair[0] != pair[1]), None)
    if same is not None:
        return f"token {same} is wrong"
    return f"{len(expected) - len(got)} tokens are missing" if len(got) < len(expected) else "tokens were repeated"
