"""Output: what a caller is told of a request, and the log-probabilities in it, in the shape SGLang gives them."""

import math
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np

from banyan.wire.base import f32, i32
from banyan.wire.output import FinishReason, HiddenStates, Logprobs
from banyan.wire.request import LogprobSpec

Scored = tuple[float | None, int, None]  # log-probability, token id, and the token's text, which is not given


class EndInfo(TypedDict, total=False):
    """Why a request is done."""

    type: str
    matched: int | str | None
    length: int
    message: str
    status: int


class MetaInfo(TypedDict, total=False):
    """What there is to know of a request beside its text. Numbers that only the end brings are 0 before it."""

    id: str
    finish_reason: EndInfo | None
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    retractions: int
    e2e_latency: float
    queue_s: float
    prefill_s: float
    decode_s: float
    output_token_logprobs: list[Scored]
    output_top_logprobs: list[list[Scored]]
    output_token_ids_logprobs: list[list[Scored]]
    input_token_logprobs: list[Scored]
    input_top_logprobs: list[list[Scored]]
    input_token_ids_logprobs: list[list[Scored]]
    hidden_states: list[list[float]]


class Output(TypedDict, total=False):
    """The answer, or a chunk of a stream: all text so far. `index` is the place in a batch."""

    text: str
    output_ids: list[int]
    embedding: list[float]
    index: int
    meta_info: MetaInfo


def end_info(reason: FinishReason, completion_tokens: int) -> EndInfo:
    """Say why a request is done."""
    if reason.kind == "stop":
        return {"type": "stop", "matched": reason.matched}
    if reason.kind == "length":
        return {"type": "length", "length": completion_tokens}
    if reason.kind == "abort":
        return {"type": "abort", "message": reason.message}
    return {"type": "error", "message": reason.message, "status": reason.status}


@dataclass(slots=True)
class LogprobLog:
    """The log-probabilities of one request, as its chunks bring them."""

    spec: LogprobSpec
    values: bytearray = field(default_factory=bytearray)
    top_ids: bytearray = field(default_factory=bytearray)
    top_values: bytearray = field(default_factory=bytearray)
    chosen: bytearray = field(default_factory=bytearray)
    prompt: Logprobs | None = None

    def add(self, part: Logprobs) -> None:
        """Append a chunk. A request that entered again may say the prompt's a second time; the first time counts."""
        self.values += part.values
        self.top_ids += part.top_ids
        self.top_values += part.top_values
        self.chosen += part.chosen
        if self.prompt is None and part.prompt_values:
            self.prompt = part

    def put(self, meta: MetaInfo, output_ids: list[int], prompt_ids: list[int]) -> None:
        """Add to the meta information what was asked for."""
        meta["output_token_logprobs"] = _scored(bytes(self.values), output_ids)
        if self.spec.top:
            meta["output_top_logprobs"] = _tops(self.spec.top, bytes(self.top_ids), bytes(self.top_values))
        if self.spec.token_ids:
            meta["output_token_ids_logprobs"] = _chosen(self.spec.token_ids, bytes(self.chosen))
        part = self.prompt
        if part is not None:
            meta["input_token_logprobs"] = _scored(part.prompt_values, prompt_ids[part.prompt_start :])
            if self.spec.top:
                meta["input_top_logprobs"] = _tops(self.spec.top, part.prompt_top_ids, part.prompt_top_values)
            if self.spec.token_ids:
                meta["input_token_ids_logprobs"] = _chosen(self.spec.token_ids, part.prompt_chosen)


@dataclass(slots=True)
class HiddenLog:
    """The hidden states of one request, as its chunks bring them."""

    values: bytearray = field(default_factory=bytearray)
    dim: int = 1

    def add(self, part: HiddenStates) -> None:
        """Append a chunk."""
        self.values += part.values
        self.dim = part.dim

    def put(self, meta: MetaInfo) -> None:
        """Add a list for each output token to the meta information."""
        meta["hidden_states"] = f32(bytes(self.values)).reshape(-1, self.dim).tolist()


def _scored(values: bytes, ids: list[int]) -> list[Scored]:
    return [(_value(value), token, None) for value, token in zip(f32(values).tolist(), ids, strict=False)]


def _tops(width: int, ids: bytes, values: bytes) -> list[list[Scored]]:
    rows = i32(ids).reshape(-1, width).tolist()
    return [_scored(part.tobytes(), row) for part, row in zip(f32(values).reshape(-1, width), rows, strict=True)]


def _chosen(ids: tuple[int, ...], values: bytes) -> list[list[Scored]]:
    rows = np.frombuffer(values, np.float32).reshape(-1, len(ids))
    return [_scored(part.tobytes(), list(ids)) for part in rows]


def _value(value: float) -> float | None:
    """The first token of a prompt has no log-probability: nothing came before it."""
    return None if math.isnan(value) else value
