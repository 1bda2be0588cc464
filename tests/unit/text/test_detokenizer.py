"""Tests of banyan.text.detokenizer: text, ends, stops, and rows that do not fit."""

import time

import msgspec
import pytest

from banyan.text.detokenizer import DetokenizerManager, LimitedCapacityDict
from banyan.text.journal import Journal
from banyan.text.tokenizer import Tokenizer, byte_tokenizer
from banyan.wire.base import i64, make_uid
from banyan.wire.control import ControlReply, ProbeReply
from banyan.wire.output import BatchEmbeddingOut, BatchStrOut, FinishReason, HiddenStates, Logprobs, Opened
from tests.unit.text.test_incremental import metaspace
from tests.unit.text.wiring import (
    QUIET,
    Out,
    Streams,
    batch,
    detokenizer,
    ended,
    floats,
    ints,
    longs,
    opened,
    request,
    rows_of,
    str_batch,
)


def test_rows_get_their_text() -> None:
    manager, streams = detokenizer(), Streams()
    streams.take(manager.process(batch(Out(1, 0, [72]), Out(2, 0, [0xC3]), opened=(opened(1), opened(2)))))
    streams.take(manager.process(batch(Out(1, 1, [105]), Out(2, 1, [0xA9, 33]))))
    assert streams.texts == {1: "Hi", 2: "é!"}
    assert manager.counters.rows == 4


def test_columns_pass_unchanged_where_nothing_changes() -> None:
    manager = detokenizer()
    message = batch(Out(1, 0, [72], finished=ended(1)), Out(2, 0, [73, 74]), opened=(opened(1), opened(2)))
    ((front, out),) = manager.process(message)
    assert front == 0
    assert [(row.text, row.tokens) for row in rows_of(out)] == [("H", [72]), ("IJ", [73, 74])]
    assert rows_of(out)[0].finished == ended(1)
    assert list(manager.decode_status) == [2]


def test_the_end_brings_out_what_was_held_back() -> None:
    manager, streams = detokenizer(), Streams()
    streams.take(manager.process(batch(Out(1, 0, [65, 0xE2]), opened=(opened(1, stop=("A!",)),))))
    assert streams.texts == {1: ""}
    streams.take(manager.process(batch(Out(1, 2, [], finished=ended(2)))))
    assert streams.texts == {1: "A\ufffd"}


@pytest.mark.parametrize(("no_stop_trim", "text"), [(False, "a"), (True, "ab")])
def test_a_stop_token_is_not_part_of_the_text(no_stop_trim: bool, text: str) -> None:
    manager, streams = detokenizer(), Streams()
    one = msgspec.structs.replace(opened(1), no_stop_trim=no_stop_trim)
    reason = FinishReason(kind="stop", matched=98)
    streams.take(manager.process(batch(Out(1, 0, [97, 98], finished=ended(2, reason)), opened=(one,))))
    assert streams.texts == {1: text}
    assert streams.tokens == {1: [97, 98]}
    assert streams.ends[1].completion_tokens == 2


def test_special_tokens_are_left_out_unless_asked_for() -> None:
    manager, streams = detokenizer(), Streams()
    shown = msgspec.structs.replace(opened(2), skip_special_tokens=False)
    rows = (Out(1, 0, [257, 65, 300, 256]), Out(2, 0, [257, 65, 300, 256]))
    streams.take(manager.process(batch(*rows, opened=(opened(1), shown))))
    assert streams.texts == {1: "A", 2: "<bos>A<eos>"}
    assert streams.tokens == {1: [257, 65, 300, 256], 2: [257, 65, 300, 256]}


def test_a_stop_string_ends_a_request_at_its_token() -> None:
    manager, streams = detokenizer(), Streams()
    one = msgspec.structs.replace(opened(1, stop=("##",)), prompt_tokens=7, cached_tokens=4)
    values = Logprobs(
        row=0, values=floats(-1, -2, -3, -4), top=1, top_ids=ints(5, 6, 7, 8), top_values=floats(1, 2, 3, 4)
    )
    states = HiddenStates(row=0, dim=1, values=floats(1, 2, 3, 4))
    row = Out(1, 0, list(b"a##b"), logprobs=values, hidden_states=states)
    (out,) = streams.take(manager.process(batch(row, opened=(one,))))
    assert (streams.texts[1], streams.tokens[1]) == ("a", list(b"a##"))
    assert streams.ends[1].reason == FinishReason(kind="stop", matched="##")
    used = streams.ends[1]
    assert (used.completion_tokens, used.prompt_tokens, used.cached_tokens) == (3, 7, 4)
    assert out.logprobs is not None
    assert (out.logprobs.values, out.logprobs.top_ids) == (floats(-1, -2, -3), ints(5, 6, 7))
    assert out.hidden_states == HiddenStates(row=0, dim=1, values=floats(1, 2, 3))
    assert manager.process(batch(Out(1, 4, [99]))) == []
    assert manager.counters.dropped == 1
    assert manager.counters.stops == 1


def test_a_stop_string_over_several_messages_is_never_seen() -> None:
    manager, streams = detokenizer(), Streams()
    data = b"one<stop>two"
    streams.take(manager.process(batch(Out(1, 0, [data[0]]), opened=(opened(1, stop=("<stop>",)),))))
    for i in range(1, len(data)):
        streams.take(manager.process(batch(Out(1, i, [data[i]]))))
        assert streams.texts[1] == "one"[: i + 1]
    assert streams.tokens[1] == list(b"one<stop>")


def test_a_stop_string_wins_over_an_end_in_the_same_row() -> None:
    manager, streams = detokenizer(), Streams()
    one = msgspec.structs.replace(opened(1), stop_regex=("b+",), no_stop_trim=True)
    streams.take(manager.process(batch(Out(1, 0, list(b"abc"), finished=ended(3)), opened=(one,))))
    assert streams.texts[1] == "ab"
    assert streams.ends[1].reason == FinishReason(kind="stop", matched="b")
    assert streams.ends[1].completion_tokens == 2


def test_stop_strings_count_from_min_new_tokens() -> None:
    for chunks in ([b"a.b.c."], [b"a.b", b".c."], [b"a", b".", b"b", b".", b"c", b"."]):
        manager, streams = detokenizer(), Streams()
        one = msgspec.structs.replace(opened(1, stop=(".",)), min_new_tokens=4)
        position = 0
        for i, chunk in enumerate(chunks):
            message = batch(Out(1, position, list(chunk)), opened=() if i else (one,))
            streams.take(manager.process(message))
            position += len(chunk)
        assert streams.texts[1] == "a.b"
        assert streams.ends[1].completion_tokens == 4


def test_a_request_that_enters_again_goes_on_where_it_was() -> None:
    data = "xé<st😀".encode()
    for cut in range(len(data) + 1):
        manager, streams = detokenizer(), Streams()
        streams.take(manager.process(batch(Out(1, 0, list(data[:cut])), opened=(opened(1, stop=("<stop>",)),))))
        fresh = detokenizer() if cut % 2 else manager
        again = opened(1, epoch=1, committed=data[:cut], stop=("<stop>",))
        streams.take(fresh.process(batch(Out(1, cut, list(data[cut:]), epoch=1, finished=ended(9)), opened=(again,))))
        assert streams.texts[1] == data.decode()


def test_rows_of_unknown_requests_and_old_epochs_are_dropped_and_counted() -> None:
    manager = detokenizer()
    assert manager.process(batch(Out(1, 0, [65]))) == []
    manager.process(batch(Out(1, 0, [65], epoch=2), opened=(opened(1, epoch=2),)))
    assert manager.process(batch(Out(1, 1, [65], epoch=1))) == []
    assert manager.process(batch(Out(1, 1, [65], epoch=3))) == []
    assert manager.process(batch(Out(1, 0, [66], epoch=1), opened=(opened(1, epoch=1),))) == []
    assert manager.counters.dropped == 4
    assert manager.decode_status[1].status.vid == 2


def test_a_gap_is_shown_to_the_front_without_text() -> None:
    manager = detokenizer()
    manager.process(batch(Out(1, 0, [65]), opened=(opened(1),)))
    ((_, out),) = manager.process(batch(Out(1, 3, [66])))
    (row,) = rows_of(out)
    assert (row.position, row.text) == (3, "")
    assert manager.counters.gaps == 1
    assert manager.process(batch(Out(1, 4, [67]))) == []


def test_repeated_tokens_are_left_out() -> None:
    manager, streams = detokenizer(), Streams()
    streams.take(manager.process(batch(Out(1, 0, [65, 66]), opened=(opened(1),))))
    assert manager.process(batch(Out(1, 0, [65, 66]))) == []
    values = Logprobs(row=0, values=floats(-2, -3))
    (row,) = streams.take(manager.process(batch(Out(1, 1, [66, 67], logprobs=values))))
    assert row.logprobs is not None
    assert row.logprobs.values == floats(-3)
    streams.take(manager.process(batch(Out(1, 1, [66], finished=ended(3)))))
    assert streams.texts[1] == "ABC"
    assert streams.ends[1] == ended(3)
    assert manager.counters.duplicates == 1


def test_fronts_get_their_own_rows() -> None:
    manager = detokenizer()
    here, there = make_uid(0, 5), make_uid(3, 5)
    message = batch(Out(here, 0, [65]), Out(there, 0, [66], finished=ended(1)), opened=(opened(here), opened(there)))
    parts = dict(manager.process(message))
    assert [(row.uid, row.text) for row in rows_of(parts[0])] == [(here, "A")]
    assert [(row.uid, row.text, row.finished) for row in rows_of(parts[3])] == [(there, "B", ended(1))]


def test_the_oldest_request_is_told_when_there_are_too_many() -> None:
    manager = detokenizer(capacity=2)
    manager.process(batch(Out(1, 0, [65]), Out(2, 0, [66]), opened=(opened(1), opened(2))))
    ((_, out),) = manager.process(batch(Out(3, 0, [67]), Out(1, 1, [68]), opened=(opened(3),)))
    rows = {row.uid: row for row in rows_of(out)}
    assert rows[3].text == "C"
    reason = rows[1].finished.reason if rows[1].finished else None
    assert reason is not None
    assert (reason.kind, reason.status) == ("error", 503)
    assert "holds 2 requests" in reason.message
    assert (rows[1].position, rows[1].offset) == (1, 1)
    assert list(manager.decode_status) == [2, 3]
    assert manager.counters.evicted == 1


def test_a_limited_dict_replaces_before_it_evicts() -> None:
    limited: LimitedCapacityDict[str, int] = LimitedCapacityDict(2)
    limited["a"], limited["b"], limited["a"] = 1, 2, 3
    assert (dict(limited), limited.evicted) == ({"a": 3, "b": 2}, [])
    limited["c"] = 4
    assert (dict(limited), limited.evicted) == ({"b": 2, "c": 4}, [("a", 3)])


def test_other_messages_pass_untouched() -> None:
    manager = detokenizer()
    reply, probe = (
        ControlReply(front=2, call=1, replica=0),
        ProbeReply(front=1, replica=0, uids=b"", epochs=b"", next=b""),
    )
    assert manager.process(reply) == [(2, reply)]
    assert manager.process(probe) == [(1, probe)]
    uids = longs(make_uid(1, 0), make_uid(1, 1))
    vectors = BatchEmbeddingOut(
        replica=0, uids=uids, epochs=ints(0, 0), dim=1, vectors=floats(1, 2), finished=(ended(0),)
    )
    assert manager.process(vectors) == [(1, vectors)]
    mixed = msgspec.structs.replace(
        vectors, uids=longs(make_uid(1, 0), 7), finished=(msgspec.structs.replace(ended(0), row=1),)
    )
    parts = dict(manager.process(mixed))
    mine = parts[0]
    assert isinstance(mine, BatchEmbeddingOut)
    assert (i64(mine.uids).tolist(), mine.vectors, mine.finished) == ([7], floats(2), (ended(0),))


class Recorder:
    """A tracer that remembers."""

    def __init__(self) -> None:
        self.enabled = True
        self.events: list[tuple[str, int, float]] = []

    def event(self, name: str, uid: int, now: float) -> None:
        self.events.append((name, uid, now))


def test_a_tracer_hears_of_beginnings_and_ends() -> None:
    tracer = Recorder()
    manager = DetokenizerManager(byte_tokenizer(), tracer, clock=lambda: 4.0)
    manager.process(batch(Out(1, 0, [65], finished=ended(1)), opened=(opened(1),)))
    assert tracer.events == [("DetokenizerManager.open", 1, 4.0), ("DetokenizerManager.finish", 1, 4.0)]


def test_a_batch_of_1024_rows_costs_little() -> None:
    manager, count = detokenizer(), 1024
    rows = [Out(uid, 0, [65]) for uid in range(count)]
    manager.process(batch(*rows, opened=tuple(opened(uid) for uid in range(count))))
    best = 1.0
    for position in range(1, 20):
        message = batch(*(Out(uid, position, [65 + position]) for uid in range(count)))
        started = time.thread_time()
        manager.process(message)
        best = min(best, time.thread_time() - started)
    assert best < 0.005


def test_many_requests_enter_again_in_one_message() -> None:
    manager = detokenizer()
    committed = list("wörld ".encode() * 50)
    again = tuple(opened(uid, epoch=1, committed=committed) for uid in range(64))
    parts = manager.process(batch(*(Out(uid, len(committed), [33], epoch=1) for uid in range(64)), opened=again))
    rows = [row for _, message in parts for row in rows_of(message)]
    assert [(row.text, row.offset) for row in rows] == [("!", 300)] * 64


@pytest.mark.parametrize("sizes", [[1] * 9, [9], [2, 3, 4], [5, 4]])
@pytest.mark.parametrize("committed", [0, 2, 5])
def test_text_does_not_depend_on_chunks_where_tokens_depend_on_neighbours(sizes: list[int], committed: int) -> None:
    ids = [1, 2, *(6 + byte for byte in "你".encode()), 6 + 0xFF, 3, 5, 4]  # Hello world, bytes, a space, wide!
    one_by_one, streams = Streams(), Streams()
    for target, chunks in ((one_by_one, [1] * 9), (streams, sizes)):
        manager = DetokenizerManager(Tokenizer(metaspace()), QUIET)
        start: tuple[Opened, ...] = (
            (opened(1, epoch=1, committed=ids[:committed]),) if target is streams else (opened(1, epoch=1),)
        )
        position = committed if target is streams else 0
        for size in chunks:
            row = Out(1, position, ids[position : position + size], epoch=1)
            position += len(row.tokens)
            rows = [row for _, message in manager.process(batch(row, opened=start)) for row in rows_of(message)]
            target.texts[1] = target.texts.get(1, "") + "".join(row.text for row in rows)
            target.texts.setdefault(0, "x" * rows[0].offset)
            start = ()
    assert one_by_one.texts[1].replace("\ufffd", "") == "Hello world你 wide!"
    assert one_by_one.texts[1][len(streams.texts[0]) :] == streams.texts[1]


def test_an_opening_that_was_not_followed_by_a_row_is_harmless() -> None:
    manager = detokenizer()
    empty = Opened(uid=1, epoch=0, rid="", context=b"", committed=b"")
    assert manager.process(batch(opened=(empty,))) == []


def test_a_repeated_opening_does_not_begin_again() -> None:
    manager, streams = detokenizer(), Streams()
    first = batch(Out(1, 0, [72]), opened=(opened(1),))
    for message in (first, batch(Out(1, 1, [105])), first, batch(Out(1, 2, [33]))):
        streams.take(manager.process(message))
    assert streams.texts == {1: "Hi!"}
    assert manager.counters.gaps == 0


def test_a_row_after_a_gap_is_a_gap_to_every_front() -> None:
    """Also to one that has all tokens before it: without its text the row must not be accepted."""
    manager = detokenizer()
    manager.process(batch(opened=(opened(1),)))
    ((_, out),) = manager.process(batch(Out(1, 2, [33])))
    assert isinstance(out, BatchStrOut)
    journal = Journal(front=0, num_replicas=1, probe_interval_s=5.0, capacity=10)
    journal.open(request(1), 0.0)
    journal.accept(str_batch(Out(1, 0, [72, 105], "Hi")), 0.0)
    assert journal.accept(out, 1.0) == []
    assert journal.counters.gaps == 1
