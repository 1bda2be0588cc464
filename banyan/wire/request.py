"""Requests on the wire: SamplingParams, TokenizedGenerateReqInput, its embedding twin, AbortReq, ProbeReq."""

from typing import Annotated, Literal

from msgspec import Meta

from banyan.wire.base import Epoch, Int32Column, Int64Column, Message, Uid

Seed = Annotated[int, Meta(ge=0, le=2**63 - 1)]
TokenId = Annotated[int, Meta(ge=0, lt=2**31)]


class GrammarSpec(Message, frozen=True, kw_only=True):
    """What the output must match, in one of the supported languages."""

    kind: Literal["json_schema", "json_object", "regex", "ebnf", "choice", "structural_tag"]
    source: Annotated[str, Meta(max_length=1 << 20)]


class SamplingParams(Message, frozen=True, kw_only=True):
    """How tokens are chosen and when a request ends. The bounds are checked wherever one is decoded."""

    max_new_tokens: Annotated[int, Meta(ge=0, lt=2**31)] = 128
    min_new_tokens: Annotated[int, Meta(ge=0, lt=2**31)] = 0
    temperature: Annotated[float, Meta(ge=0, le=100)] = 1.0
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Meta(ge=-1, lt=2**31)] = -1  # -1: all of the vocabulary
    min_p: Annotated[float, Meta(ge=0, le=1)] = 0.0
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] = 0.0
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] = 0.0
    repetition_penalty: Annotated[float, Meta(gt=0, le=2)] = 1.0
    n: Annotated[int, Meta(ge=1, le=16)] = 1
    stop: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=256)], ...], Meta(max_length=16)] = ()
    stop_token_ids: Annotated[tuple[TokenId, ...], Meta(max_length=64)] = ()
    stop_regex: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=256)], ...], Meta(max_length=4)] = ()
    ignore_eos: bool = False
    no_stop_trim: bool = False
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    sampling_seed: Seed | None = None
    logit_bias: Annotated[tuple[tuple[TokenId, float], ...], Meta(max_length=300)] = ()
    grammar: GrammarSpec | None = None


class LogprobSpec(Message, frozen=True, kw_only=True):
    """Which log-probabilities a request wants."""

    start: Annotated[int, Meta(ge=-1)] = -1  # first prompt position to report; -1: output tokens only
    top: Annotated[int, Meta(ge=0, le=20)] = 0
    token_ids: Annotated[tuple[TokenId, ...], Meta(max_length=256)] = ()


class SessionRef(Message, frozen=True, kw_only=True):
    """The session a request belongs to; its prompt continues what the session already holds."""

    id: Annotated[str, Meta(min_length=1, max_length=128)]
    offset: Annotated[int, Meta(ge=-1)] = -1  # tokens of the session to keep; -1: all
    replace: bool = False  # forget what came after `offset` before appending


class TokenizedGenerateReqInput(Message, frozen=True, kw_only=True):
    """A validated generation request. The same message starts a request and resumes one after a loss:
    then `committed` holds the output tokens that the front already has, and `epoch` is higher."""

    uid: Uid
    rid: Annotated[str, Meta(max_length=256)]
    epoch: Epoch = 0
    tokens: Int32Column  # prompt
    committed: Int32Column = b""
    sampling: SamplingParams
    seed: Seed  # settled by the front: resuming must draw the same noise
    stream: bool = False
    logprobs: LogprobSpec | None = None
    return_hidden_states: bool = False
    lora: Annotated[str, Meta(max_length=128)] = ""
    salt: Annotated[str, Meta(max_length=128)] = ""  # tenant: prefixes are shared only under one salt
    priority: Annotated[int, Meta(ge=-1000, le=1000)] = 0  # higher goes first
    session: SessionRef | None = None
    queue_timeout_s: Annotated[float, Meta(gt=0)] | None = None


class TokenizedEmbeddingReqInput(Message, frozen=True, kw_only=True):
    """A validated embedding request."""

    uid: Uid
    rid: Annotated[str, Meta(max_length=256)]
    epoch: Epoch = 0
    tokens: Int32Column
    salt: Annotated[str, Meta(max_length=128)] = ""
    lora: Annotated[str, Meta(max_length=128)] = ""
    priority: Annotated[int, Meta(ge=-1000, le=1000)] = 0
    queue_timeout_s: Annotated[float, Meta(gt=0)] | None = None


class AbortReq(Message, frozen=True, kw_only=True):
    """End requests, in incarnations below the given epoch: a resumed request outlives an older abort."""

    uids: Int64Column
    below: Int32Column  # one epoch per uid
    reason: Annotated[str, Meta(max_length=256)] = "aborted"
    quiet: bool = False  # the front no longer listens: send no output

    def mismatch(self) -> str:
        return "" if len(self.uids) == 2 * len(self.below) else "uids and below differ in rows"


class AbortAllReq(Message, frozen=True, kw_only=True):
    """End every request of one front, or of all (front = -1)."""

    front: Annotated[int, Meta(ge=-1)] = -1
    reason: Annotated[str, Meta(max_length=256)] = "aborted"


class ProbeReq(Message, frozen=True, kw_only=True):
    """Do you still know these? Sent for requests that have been silent for a while."""

    front: Annotated[int, Meta(ge=0)]
    uids: Int64Column
    epochs: Int32Column

    def mismatch(self) -> str:
        return "" if len(self.uids) == 2 * len(self.epochs) else "uids and epochs differ in rows"
