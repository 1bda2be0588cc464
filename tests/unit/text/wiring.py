"""What tests of this package share: messages from rows, rows from messages, a scheduler of a few lines."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from banyan.obs.trace import Tracer
from banyan.text.detokenizer import DetokenizerManager
from banyan.text.tokenizer import byte_tokenizer
from banyan.wire.base import i32, i64
from banyan.wire.control import ToFront
from banyan.wire.output import BatchStrOut, BatchTokenIDOut, Finished, FinishReason, HiddenStates, Logprobs, Opened
from banyan.wire.request import SamplingParams, TokenizedGenerateReqInput

QUIET = Tracer(None, "test")
EIGHT_TOKENS = SamplingParams(max_new_tokens=8)


def ints(*values: int) -> bytes:
    """An int32 column."""
    return np.array(values, np.int32).tobytes()


def longs(*values: int) -> bytes:
    """An int64 column."""
    return np.array(values, np.int64).tobytes()


def floats(*values: float) -> bytes:
    """A float32 column."""
    return np.array(values, np.float32).tobytes()


@dataclass
class Out:
    """A row in either direction."""

    uid: int
    position: int
    tokens: list[int]
    text: str = ""
    offset: int = 0
    epoch: int = 0
    finished: Finished | None = None
    logprobs: Logprobs | None = None
    hidden_states: HiddenStates | None = None


def batch(*rows: Out, opened: tuple[Opened, ...] = (), replica: int = 0) -> BatchTokenIDOut:
    """Pack rows as a scheduler does."""
    return BatchTokenIDOut(
        replica=replica,
        uids=longs(*(row.uid for row in rows)),
        epochs=ints(*(row.epoch for row in rows)),
        positions=ints(*(row.position for row in rows)),
        counts=ints(*(len(row.tokens) for row in rows)),
        tokens=ints(*(token for row in rows for token in row.tokens)),
        opened=opened,
        finished=tuple(end(i, row.finished) for i, row in enumerate(rows) if row.finished),
        logprobs=tuple(row.logprobs for row in rows if row.logprobs),
        hidden_states=tuple(row.hidden_states for row in rows if row.hidden_states),
    )


def str_batch(*rows: Out, replica: int = 0) -> BatchStrOut:
    """Pack rows as a detokenizer does."""
    ids = batch(*rows)
    return BatchStrOut(
        replica=replica,
        uids=ids.uids,
        epochs=ids.epochs,
        positions=ids.positions,
        counts=ids.counts,
        tokens=ids.tokens,
        texts=tuple(row.text for row in rows),
        text_offsets=ints(*(row.offset for row in rows)),
        finished=ids.finished,
        logprobs=ids.logprobs,
        hidden_states=ids.hidden_states,
    )


def end(row: int, like: Finished) -> Finished:
    """The same end at another row."""
    return Finished(
        row=row,
        reason=like.reason,
        prompt_tokens=like.prompt_tokens,
        cached_tokens=like.cached_tokens,
        completion_tokens=like.completion_tokens,
    )


def ended(completion_tokens: int, reason: FinishReason | None = None) -> Finished:
    """An end, by length unless said otherwise."""
    return Finished(
        row=0,
        reason=reason or FinishReason(kind="length"),
        prompt_tokens=3,
        cached_tokens=1,
        completion_tokens=completion_tokens,
    )


def rows_of(message: ToFront) -> list[Out]:
    """Unpack a BatchStrOut."""
    assert isinstance(message, BatchStrOut)
    assert not message.mismatch()
    finished = {end.row: end for end in message.finished}
    logprobs = {part.row: part for part in message.logprobs}
    hidden = {part.row: part for part in message.hidden_states}
    rows, tokens, start = [], i32(message.tokens).tolist(), 0
    for i, uid in enumerate(i64(message.uids).tolist()):
        count = int(i32(message.counts)[i])
        rows.append(
            Out(
                uid=uid,
                position=int(i32(message.positions)[i]),
                tokens=tokens[start : start + count],
                text=message.texts[i],
                offset=int(i32(message.text_offsets)[i]),
                epoch=int(i32(message.epochs)[i]),
                finished=finished.get(i),
                logprobs=logprobs.get(i),
                hidden_states=hidden.get(i),
            )
        )
        start += count
    return rows


def request(uid: int, sampling: SamplingParams = EIGHT_TOKENS) -> TokenizedGenerateReqInput:
    """A request with a prompt of three tokens."""

    return TokenizedGenerateReqInput(uid=uid, rid=f"r{uid}", tokens=ints(65, 66, 67), sampling=sampling, seed=uid)


def detokenizer(capacity: int = 1 << 15) -> DetokenizerManager:
    """A detokenizer of bytes."""
    return DetokenizerManager(byte_tokenizer(), QUIET, capacity)


def opened(uid: int, epoch: int = 0, committed: Iterable[int] = (), stop: tuple[str, ...] = ()) -> Opened:
    """What opens a request."""
    return Opened(uid=uid, epoch=epoch, rid=f"r{uid}", context=b"", committed=ints(*committed), stop=stop)


@dataclass
class Streams:
    """What the rows of a detokenizer add up to."""

    texts: dict[int, str] = field(default_factory=dict)
    tokens: dict[int, list[int]] = field(default_factory=dict)
    ends: dict[int, Finished] = field(default_factory=dict)

    def take(self, parts: list[tuple[int, ToFront]]) -> list[Out]:
        """Add what process() returned, checking that nothing is missing or said twice."""
        rows = [row for _, message in parts for row in rows_of(message)]
        for row in rows:
            assert row.offset == len(self.texts.get(row.uid, ""))
            assert row.position == len(self.tokens.get(row.uid, []))
            self.texts[row.uid] = self.texts.get(row.uid, "") + row.text
            self.tokens.setdefault(row.uid, []).extend(row.tokens)
            if row.finished is not None:
                self.ends[row.uid] = row.finished
        return rows
