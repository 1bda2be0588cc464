"""Tests of banyan.text.inflight."""

import asyncio

import pytest

from banyan.text.entry import Accepted
from banyan.text.inflight import Gathering, Inflight, ReqState
from banyan.text.request import RequestError
from banyan.wire.output import FinishReason
from tests.unit.text.wiring import ended, ints


def state(uid: int, name: str = "") -> ReqState:
    return ReqState(uid, rid=f"r{uid}", name=name or f"r{uid}", index=uid, created_at=1.0)


def said(uid: int, text: str, *, last: bool = False) -> Accepted:
    return Accepted(uid, ints(*text.encode()), text, False, ended(9) if last else None, None)


def test_what_comes_adds_up() -> None:
    one = state(2)
    one.feed(said(2, "ab"), 2.0)
    first = one.output(indexed=False)
    assert (first["text"], first["output_ids"]) == ("ab", [97, 98])
    assert first["meta_info"]["finish_reason"] is None
    assert first["meta_info"]["completion_tokens"] == 2
    one.feed(said(2, "c", last=True), 4.0)
    last = one.output(indexed=True)
    assert (last["text"], last["index"]) == ("abc", 2)
    assert last["meta_info"]["finish_reason"] == {"type": "length", "length": 9}
    assert last["meta_info"]["e2e_latency"] == 3.0
    assert first["output_ids"] == [97, 98]


def test_an_end_from_outside_keeps_what_there_is() -> None:
    one = state(0)
    one.feed(said(0, "ab"), 2.0)
    one.end(FinishReason(kind="abort", message="enough"), 3.0)
    assert one.finished
    assert one.output(indexed=False)["text"] == "ab"


def test_news_of_streams_come_in_the_order_of_their_arrival_and_together() -> None:
    async def main() -> list[list[int]]:
        states = [state(0), state(1)]
        gathering, seen = Gathering(states, stream=True), []
        waiting = asyncio.ensure_future(gathering.news())
        await asyncio.sleep(0)
        gathering.notify(states[1])
        gathering.notify(states[0])
        gathering.notify(states[1])
        seen.append([one.uid for one in await waiting])
        gathering.notify(states[0])
        assert gathering.has_news
        seen.append([one.uid for one in await gathering.news()])
        return seen

    assert asyncio.run(main()) == [[1, 0], [0]]


def test_who_does_not_stream_hears_of_ends_only() -> None:
    async def main() -> None:
        states = [state(0), state(1)]
        gathering = Gathering(states, stream=False)
        gathering.notify(states[0])
        assert not gathering.has_news
        states[0].end(FinishReason(kind="length"), 1.0)
        gathering.notify(states[0])
        assert [one.uid for one in await gathering.news()] == [0]
        assert not gathering.finished
        states[1].end(FinishReason(kind="length"), 1.0)
        assert gathering.finished

    asyncio.run(main())


def test_a_call_is_taken_up_whole_or_not_at_all() -> None:
    inflight = Inflight(3)
    first = Gathering([state(0), state(1)], stream=False)
    inflight.add(first, 0.0)
    with pytest.raises(RequestError, match="2 requests are live and 3 are allowed") as caught:
        inflight.add(Gathering([state(2), state(3)], stream=False), 0.0)
    assert (caught.value.status, caught.value.retry_after_s) == (503, 1)
    with pytest.raises(RequestError, match="'r1' is the name of a live request"):
        inflight.add(Gathering([ReqState(5, "r1", "", 0, 0.0)], stream=False), 0.0)
    assert (len(inflight), list(inflight.rid_to_state)) == (2, ["r0", "r1"])
    assert inflight.find(1) == (first.states[1], first)
    inflight.remove(first.states, 1.0)
    assert (len(inflight), inflight.find(1), inflight.rid_to_state) == (0, None, {})


def test_requests_are_found_by_their_own_name_and_by_their_calls() -> None:
    inflight = Inflight(9)
    inflight.add(Gathering([state(0, "call"), state(1, "call"), state(2)], stream=False), 0.0)
    assert [one.uid for one in inflight.named("call")] == [0, 1]
    assert [one.uid for one in inflight.named("r1")] == [1]
    assert inflight.named("") == []


@pytest.mark.parametrize(("ended_in_s", "retry_after_s"), [(1.0, 1), (20.0, 10), (1000.0, 60)])
def test_the_time_to_come_back_follows_from_how_fast_requests_end(ended_in_s: float, retry_after_s: int) -> None:
    inflight = Inflight(1)
    for i in range(2):
        gathering = Gathering([state(i)], stream=False)
        inflight.add(gathering, 0.0)
        inflight.remove(gathering.states, i * ended_in_s)
    inflight.add(Gathering([state(7)], stream=False), 0.0)
    with pytest.raises(RequestError) as caught:
        inflight.add(Gathering([state(8)], stream=False), ended_in_s)
    assert caught.value.retry_after_s == retry_after_s


def test_waiting_for_the_last_request() -> None:
    async def main() -> None:
        inflight = Inflight(9)
        await inflight.wait_empty()
        gathering = Gathering([state(0), state(1)], stream=False)
        inflight.add(gathering, 0.0)
        waiting = asyncio.ensure_future(inflight.wait_empty())
        await asyncio.sleep(0)
        inflight.remove(gathering.states[:1], 0.0)
        await asyncio.sleep(0)
        assert not waiting.done()
        inflight.remove(gathering.states[1:], 0.0)
        await waiting

    asyncio.run(main())
