"""Row and pack(): rows of output taken apart and put together again as columns."""

from collections.abc import Sequence
from itertools import chain

import msgspec
import numpy as np

from banyan.wire.output import BatchStrOut, Finished, HiddenStates, Logprobs


class Row(msgspec.Struct, gc=False):
    """What one request says in one message."""

    uid: int
    epoch: int
    position: int
    tokens: list[int]
    text: str = ""
    text_offset: int = 0
    finished: Finished | None = None
    logprobs: Logprobs | None = None
    hidden_states: HiddenStates | None = None

    def cut(self, start: int, stop: int) -> None:
        """Keep the tokens from `start` to before `stop`, with what is said of them. Text is not touched."""
        if self.logprobs is not None:
            self.logprobs = cut_logprobs(self.logprobs, start, stop)
        if self.hidden_states is not None:
            self.hidden_states = cut_hidden_states(self.hidden_states, start, stop)
        self.position += start
        self.tokens = self.tokens[start:stop]


def pack(replica: int, rows: Sequence[Row]) -> BatchStrOut:
    """Make columns of rows."""
    return BatchStrOut(
        replica=replica,
        uids=np.array([row.uid for row in rows], np.int64).tobytes(),
        epochs=np.array([row.epoch for row in rows], np.int32).tobytes(),
        positions=np.array([row.position for row in rows], np.int32).tobytes(),
        counts=np.array([len(row.tokens) for row in rows], np.int32).tobytes(),
        tokens=np.array(list(chain.from_iterable(row.tokens for row in rows)), np.int32).tobytes(),
        texts=tuple(row.text for row in rows),
        text_offsets=np.array([row.text_offset for row in rows], np.int32).tobytes(),
        finished=tuple(
            msgspec.structs.replace(row.finished, row=i) for i, row in enumerate(rows) if row.finished is not None
        ),
        logprobs=tuple(
            msgspec.structs.replace(row.logprobs, row=i) for i, row in enumerate(rows) if row.logprobs is not None
        ),
        hidden_states=tuple(
            msgspec.structs.replace(row.hidden_states, row=i)
            for i, row in enumerate(rows)
            if row.hidden_states is not None
        ),
    )


def cut_logprobs(part: Logprobs, start: int, stop: int) -> Logprobs:
    """Keep the tokens from `start` to before `stop` of a row. What is said of the prompt stays."""
    num_tokens = len(part.values) // 4
    if not num_tokens or (start <= 0 and stop >= num_tokens):
        return part
    columns = {}
    for name, column in (
        ("values", part.values),
        ("top_ids", part.top_ids),
        ("top_values", part.top_values),
        ("chosen", part.chosen),
    ):
        width = len(column) // num_tokens
        columns[name] = column[start * width : stop * width]
    return msgspec.structs.replace(part, **columns)


def cut_hidden_states(part: HiddenStates, start: int, stop: int) -> HiddenStates:
    """Keep the tokens from `start` to before `stop` of a row."""
    width = 4 * part.dim
    return msgspec.structs.replace(part, values=part.values[start * width : stop * width])
