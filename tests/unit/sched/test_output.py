"""OutputPacker: columns for all due rows, objects for those that begin or end."""

import numpy as np
import pytest

from banyan.sched.columns import Columns
from banyan.sched.output import OutputPacker
from banyan.sched.req import Req
from banyan.wire.base import I32, f32, i32, i64
from banyan.wire.output import BatchTokenIDOut, FinishReason
from banyan.wire.request import LogprobSpec, SamplingParams, TokenizedEmbeddingReqInput, TokenizedGenerateReqInput
from tests.fakes.collector import Collector
from tests.fakes.world import embed, generate


class Desk:
    """A packer with requests in slots."""

    def __init__(self, *intervals: int) -> None:
        self.columns = Columns(8, 64)
        self.packer = OutputPacker(self.columns, replica=3)
        self.by_slot: list[Req | None] = [None] * 9
        for slot, interval in enumerate(intervals, start=1):
            self.seat(generate(100 + slot, [1, 2, 3]), slot, interval)

    def seat(self, ask: TokenizedGenerateReqInput | TokenizedEmbeddingReqInput, slot: int, interval: int = 1) -> Req:
        req = Req(ask, slot, 0.0, 100.0)
        req.slot = slot
        self.columns.fill(slot, req, (), interval)
        self.by_slot[slot] = req
        return req

    def grow(self, slot: int, *tokens: int) -> None:
        known = int(self.columns.known[slot])
        self.columns.tokens[slot, known : known + len(tokens)] = tokens
        self.columns.known[slot] += len(tokens)

    def pack(self, *slots: int, ended: tuple[Req, ...] = ()) -> BatchTokenIDOut | None:
        column: I32 = np.asarray(slots, np.int32)
        return self.packer.pack(column, self.by_slot, list(ended), now=10.0)


def rows(message: BatchTokenIDOut | None) -> list[tuple[int, int, list[int]]]:
    """List (uid, position, tokens) of each row."""
    assert message is not None
    assert message.mismatch() == ""
    counts, tokens = i32(message.counts), i32(message.tokens)
    parts = np.split(tokens, np.cumsum(counts)[:-1]) if len(counts) else []
    names = zip(i64(message.uids).tolist(), i32(message.positions).tolist(), parts, strict=True)
    return [(uid, position, part.tolist()) for uid, position, part in names]


def test_nothing_is_due() -> None:
    desk = Desk(4)
    assert desk.pack() is None
    desk.grow(1, 7, 8, 9)
    assert desk.pack(1) is None


def test_one_token_each() -> None:
    desk = Desk(1, 1)
    desk.grow(1, 7)
    desk.grow(2, 8)
    message = desk.pack(2, 1)
    assert rows(message) == [(102, 0, [8]), (101, 0, [7])]
    assert message is not None
    assert (message.replica, message.finished, message.logprobs) == (3, (), ())


def test_each_row_has_its_own_cadence() -> None:
    desk = Desk(1, 3, 2)
    for slot in (1, 2, 3):
        desk.grow(slot, 5, 6)
    assert rows(desk.pack(1, 2, 3)) == [(101, 0, [5, 6]), (103, 0, [5, 6])]
    for slot in (1, 2, 3):
        desk.grow(slot, 7)
    assert rows(desk.pack(1, 2, 3)) == [(101, 2, [7]), (102, 0, [5, 6, 7])]


def test_rows_that_end_are_due_and_named_last() -> None:
    desk = Desk(1, 64)
    desk.grow(1, 5)
    desk.grow(2, 6, 7)
    ending = desk.by_slot[2]
    assert ending is not None
    ending.reason = FinishReason(kind="length")
    message = desk.pack(2, 1, ended=(ending,))
    assert rows(message) == [(101, 0, [5]), (102, 0, [6, 7])]
    assert message is not None
    (end,) = message.finished
    assert (end.row, end.reason.kind, end.prompt_tokens, end.completion_tokens) == (1, "length", 3, 2)


def test_an_end_without_new_tokens_is_an_empty_row() -> None:
    desk = Desk(1)
    desk.grow(1, 5)
    desk.pack(1)
    req = desk.by_slot[1]
    assert req is not None
    req.reason = FinishReason(kind="abort")
    assert rows(desk.pack(ended=(req,))) == [(101, 1, [])]


def test_an_end_without_a_reason_is_still_an_end() -> None:
    desk = Desk(1)
    req = desk.by_slot[1]
    assert req is not None
    message = desk.pack(ended=(req,))
    assert message is not None
    assert message.finished[0].reason.status == 500


def test_the_detokenizer_is_told_once_before_the_first_row() -> None:
    desk = Desk()
    sampling = SamplingParams(stop=("x",), stop_regex=("y+",), min_new_tokens=2, no_stop_trim=True)
    req = desk.seat(generate(9, range(20), sampling=sampling, epoch=3, committed=[7, 8]), 4)
    desk.grow(4, 5)
    message = desk.pack(4)
    assert message is not None
    (opened,) = message.opened
    assert (opened.uid, opened.epoch, opened.rid) == (9, 3, "r9")
    assert i32(opened.context).tolist() == list(range(12, 20))
    assert i32(opened.committed).tolist() == [7, 8]
    assert (opened.stop, opened.stop_regex, opened.min_new_tokens, opened.no_stop_trim) == (("x",), ("y+",), 2, True)
    assert rows(message) == [(9, 2, [5])]
    desk.grow(4, 6)
    again = desk.pack(4)
    assert again is not None
    assert again.opened == ()
    assert req.opened


def test_whoever_was_retracted_is_not_announced_again() -> None:
    desk = Desk()
    req = desk.seat(generate(9, [1, 2]), 4)
    desk.grow(4, 5)
    desk.pack(4)
    req.tokens, req.sent, req.slot = desk.columns.sequence(4, 3).copy(), 3, 6
    desk.columns.fill(6, req, (), 1)
    desk.by_slot[6] = req
    desk.grow(6, 6)
    message = desk.pack(6)
    assert rows(message) == [(9, 1, [6])]
    assert message is not None
    assert message.opened == ()


def test_logprobs_come_with_the_rows_that_asked() -> None:
    desk = Desk(1)
    req = desk.seat(generate(9, [1, 2], logprobs=LogprobSpec()), 2)
    assert req.logprobs is not None
    desk.grow(1, 5)
    desk.grow(2, 6)
    message = desk.pack(1, 2)
    assert message is not None
    assert [part.row for part in message.logprobs] == [1]


def test_hidden_states_come_with_the_rows_that_asked_and_have_some() -> None:
    desk = Desk(1)
    req = desk.seat(generate(9, [1, 2], hidden_states=True), 2)
    assert req.hidden is not None
    desk.grow(1, 5)
    desk.grow(2, 6)
    req.hidden.add(np.asarray([1, 2], np.float32))
    message = desk.pack(1, 2)
    assert message is not None
    assert [(part.row, part.dim) for part in message.hidden_states] == [(1, 2)]
    assert message.mismatch() == ""
    desk.grow(1, 5)
    message = desk.pack(1)
    assert message is not None
    assert message.hidden_states == ()


def test_the_end_of_a_request_without_a_slot() -> None:
    desk = Desk()
    req = Req(generate(9, [1, 2], epoch=1, committed=[7]), 1, 4.0, 100.0)
    req.reason = FinishReason(kind="abort")
    message = desk.packer.end_without_row(req, now=6.0)
    assert rows(message) == [(9, 1, [])]
    assert [opened.uid for opened in message.opened] == [9]
    assert message.finished[0].completion_tokens == 1
    assert message.finished[0].queue_s == 2.0


def test_a_request_that_waits_after_a_retraction_gives_its_unsent_tokens() -> None:
    desk = Desk()
    req = Req(generate(9, [1, 2], logprobs=LogprobSpec(), hidden_states=True), 1, 0.0, 100.0)
    assert req.hidden is not None
    req.hidden.add(np.zeros(1, np.float32))
    req.hidden.add(np.zeros(1, np.float32))
    req.tokens, req.sent, req.opened = np.asarray([1, 2, 5, 6, 7], np.int32), 3, True
    req.reason = FinishReason(kind="abort")
    message = desk.packer.end_without_row(req, now=1.0)
    assert rows(message) == [(9, 1, [6, 7])]
    assert message.opened == ()
    assert message.finished[0].completion_tokens == 3
    assert len(message.logprobs) == 1
    assert [part.dim for part in message.hidden_states] == [1]
    assert message.mismatch() == ""


def test_vectors_and_failures_travel_together() -> None:
    desk = Desk()
    good, bad = desk.seat(embed(7, [1, 2]), 1), desk.seat(embed(8, [1, 2, 3]), 2)
    good.reason, bad.reason = FinishReason(kind="length"), FinishReason(kind="error", status=500)
    message = desk.packer.embeddings([good, bad], [np.ones(4, np.float32), np.zeros(0, np.float32)], now=1.0)
    assert message.mismatch() == ""
    assert (message.dim, f32(message.vectors).tolist()) == (4, [1.0] * 4 + [0.0] * 4)
    assert [(end.row, end.reason.kind, end.completion_tokens) for end in message.finished] == [
        (0, "length", 0),
        (1, "error", 0),
    ]


def test_failures_alone_have_no_dimension() -> None:
    desk = Desk()
    bad = desk.seat(embed(8, [1, 2, 3]), 2)
    assert desk.packer.embeddings([bad], [np.zeros(0, np.float32)], now=1.0).dim == 0


@pytest.mark.parametrize(
    ("admitted", "first", "expected"),
    [(-1.0, -1.0, (10.0, 0.0, 0.0)), (2.0, -1.0, (2.0, 8.0, 0.0)), (2.0, 5.0, (2.0, 3.0, 5.0))],
)
def test_times_are_those_of_the_phases_reached(
    admitted: float, first: float, expected: tuple[float, float, float]
) -> None:
    desk = Desk(1)
    req = desk.by_slot[1]
    assert req is not None
    req.admitted_at, req.first_token_at, req.reason = admitted, first, FinishReason(kind="length")
    message = desk.pack(ended=(req,))
    assert message is not None
    (end,) = message.finished
    assert (end.queue_s, end.prefill_s, end.decode_s) == expected


def test_what_is_packed_is_what_a_detokenizer_accepts() -> None:
    desk, heard = Desk(1, 2, 5), Collector()
    for number in range(40):
        for slot in (1, 2, 3):
            desk.grow(slot, number)
        message = desk.pack(1, 2, 3)
        assert message is not None
        heard.take(message)
    assert [len(heard.tokens(uid)) for uid in (101, 102, 103)] == [40, 40, 40]
