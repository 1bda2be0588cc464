"""Outputs on the wire, as columns: BatchTokenIDOut, BatchStrOut, BatchEmbeddingOut, FinishReason."""

from typing import Annotated, Literal

from msgspec import Meta

from banyan.wire.base import Epoch, Float32Column, Int32Column, Int64Column, Message, Uid, i32

FinishKind = Literal["stop", "length", "abort", "error"]


class FinishReason(Message, frozen=True, kw_only=True):
    """Why a request is done: `matched` is the stop token or string, `status` the HTTP code of an error."""

    kind: FinishKind
    matched: int | str | None = None
    message: str = ""
    status: int = 200


class Opened(Message, frozen=True, kw_only=True):
    """What the detokenizer needs to know of a request before its first token of an epoch."""

    uid: Uid
    epoch: Epoch
    rid: str
    context: Int32Column  # the end of the prompt: decoding needs a little of what came before
    committed: Int32Column  # output tokens that the front already has
    stop: tuple[str, ...] = ()
    stop_regex: tuple[str, ...] = ()
    min_new_tokens: int = 0
    no_stop_trim: bool = False
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    prompt_tokens: int = 0  # what was used so far: a stop string ends a request here, without the scheduler's account
    cached_tokens: int = 0


class Finished(Message, frozen=True, kw_only=True):
    """The end of one row's request, and what it used."""

    row: int
    reason: FinishReason
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    retractions: int = 0
    queue_s: float = 0.0  # admission minus arrival, by the scheduler's clock
    prefill_s: float = 0.0  # first token minus admission
    decode_s: float = 0.0  # last token minus first


class Logprobs(Message, frozen=True, kw_only=True):
    """Log-probabilities of one row's tokens. Prompt positions, where asked for, come with the first chunk."""

    row: int
    values: Float32Column  # one per token of the row
    top: int = 0
    top_ids: Int32Column = b""  # [tokens, top]
    top_values: Float32Column = b""  # [tokens, top]
    chosen: Float32Column = b""  # [tokens, ids asked for]
    prompt_start: int = 0
    prompt_values: Float32Column = b""
    prompt_top_ids: Int32Column = b""
    prompt_top_values: Float32Column = b""
    prompt_chosen: Float32Column = b""


class HiddenStates(Message, frozen=True, kw_only=True):
    """Hidden states of one row's tokens: for each the last layer's state that its logits came from."""

    row: int
    dim: Annotated[int, Meta(ge=1)]
    values: Float32Column  # [tokens, dim]


def _rows_mismatch(batch: "BatchTokenIDOut | BatchStrOut") -> str:
    rows = len(batch.uids) // 8
    if not len(batch.epochs) == len(batch.positions) == len(batch.counts) == 4 * rows:
        return "columns differ in rows"
    counts = i32(batch.counts)
    if int(counts.min(initial=0)) < 0 or 4 * int(counts.sum()) != len(batch.tokens):
        return "tokens and counts differ"
    named = [part.row for parts in (batch.finished, batch.logprobs, batch.hidden_states) for part in parts]
    if any(not 0 <= row < rows for row in named):
        return "a part names a row that is not there"
    if any(len(part.values) != 4 * part.dim * int(counts[part.row]) for part in batch.hidden_states):
        return "hidden states and tokens differ"
    return ""


class BatchTokenIDOut(Message, frozen=True, kw_only=True):
    """New tokens after a commit. Row i has counts[i] tokens, the first at output position positions[i]."""

    replica: int
    uids: Int64Column
    epochs: Int32Column
    positions: Int32Column
    counts: Int32Column
    tokens: Int32Column  # all rows' tokens, end to end
    opened: tuple[Opened, ...] = ()
    finished: tuple[Finished, ...] = ()
    logprobs: tuple[Logprobs, ...] = ()
    hidden_states: tuple[HiddenStates, ...] = ()

    def mismatch(self) -> str:
        return _rows_mismatch(self)


class BatchStrOut(Message, frozen=True, kw_only=True):
    """The same rows with their text. texts[i] begins at character text_offsets[i] of the whole output."""

    replica: int
    uids: Int64Column
    epochs: Int32Column
    positions: Int32Column
    counts: Int32Column
    tokens: Int32Column
    texts: tuple[str, ...]
    text_offsets: Int32Column
    finished: tuple[Finished, ...] = ()
    logprobs: tuple[Logprobs, ...] = ()
    hidden_states: tuple[HiddenStates, ...] = ()

    def mismatch(self) -> str:
        if not 8 * len(self.texts) == len(self.uids) == 2 * len(self.text_offsets):
            return "texts and rows differ"
        return _rows_mismatch(self)


class BatchEmbeddingOut(Message, frozen=True, kw_only=True):
    """Vectors of finished embedding requests, and the failures among them (their vector is zero)."""

    replica: int
    uids: Int64Column
    epochs: Int32Column
    dim: Annotated[int, Meta(ge=0)]
    vectors: Float32Column  # [rows, dim]
    finished: tuple[Finished, ...]

    def mismatch(self) -> str:
        rows = len(self.uids) // 8
        if len(self.epochs) != 4 * rows or len(self.vectors) != 4 * rows * self.dim:
            return "columns differ in rows"
        if any(not 0 <= end.row < rows for end in self.finished):
            return "a part names a row that is not there"
        return ""
