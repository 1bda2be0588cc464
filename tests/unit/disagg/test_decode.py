"""A decode server reserves pages, starts when their contents have come, and can do without a prefill server."""

import pytest

from banyan.disagg.links.base import Key
from banyan.plan import Step
from banyan.wire.output import FinishReason
from banyan.worker.fake import Faults
from tests.fakes.server import Shape
from tests.unit.disagg.requests import abort, ask, make_pair, tokens_of

KEY = Key(1, 0)


def test_the_prompt_is_not_computed_here() -> None:
    pair = make_pair()
    pair.send(ask(prompt=30))
    pair.run()
    assert pair.decode.out.tokens(1) == tokens_of(ask(prompt=30))
    fed = pair.decode.scheduler.roster.columns.fed[1]
    assert fed == 30 + 5
    assert pair.decode.scheduler.steps == 5  # the first token came with the pages
    assert pair.leaks() == []


def test_pages_that_are_cached_here_do_not_travel() -> None:
    pair = make_pair(polls=50)
    pair.send(ask(prompt=21))
    pair.run()
    pair.send(ask(uid=2, prompt=22))
    while Key(2, 0) not in pair.link.expected:
        pair.turn()
    pages, skip = pair.link.expected[Key(2, 0)]
    assert (len(pages), skip) == (1, 5)
    pair.run()
    assert pair.decode.out.tokens(2) == tokens_of(ask(uid=2, prompt=22))
    assert pair.leaks() == []


def test_a_lost_transfer_costs_time_not_the_request() -> None:
    pair = make_pair(fails=True)
    pair.send(ask())
    pair.run()
    assert pair.decode.out.tokens(1) == tokens_of(ask())
    assert pair.leaks() == []


def test_a_dead_prefill_server_costs_a_lease() -> None:
    pair = make_pair()
    pair.decode.inbox.append(ask())
    pair.run()
    assert pair.decode.out.tokens(1) == tokens_of(ask())
    assert 10.0 <= pair.clock.now() < 10.5
    assert pair.leaks() == []


def test_who_waits_too_long_for_room_is_refused() -> None:
    pair = make_pair(Shape(num_slots=1, queue_timeout_s=5.0), polls=10**9)
    pair.send(ask())
    pair.send(ask(uid=2))
    pair.run()
    assert pair.decode.out.tokens(1) == tokens_of(ask())
    reason = pair.decode.out.reason(2)
    assert reason == FinishReason(kind="error", message="waited too long in the queue", status=503)
    assert pair.leaks() == []


@pytest.mark.parametrize("turns", range(10))
def test_an_abort_stops_the_transfer_before_the_pages_are_anothers(turns: int) -> None:
    pair = make_pair(Shape(num_slots=2, num_pages=8), polls=5)
    for uid in range(1, 6):
        pair.send(ask(uid, prompt=14))
    for _ in range(turns):
        pair.turn()
    pair.decode.inbox.append(abort(1))
    pair.run()
    for uid in range(2, 6):
        assert pair.decode.out.tokens(uid) == tokens_of(ask(uid, prompt=14))
    assert pair.leaks() == []


def test_an_abort_while_waiting_for_room() -> None:
    pair = make_pair(Shape(num_slots=1), polls=20)
    pair.send(ask())
    pair.send(ask(uid=2))
    pair.turn()
    pair.decode.inbox.append(abort(2))
    pair.run()
    reason = pair.decode.out.reason(2)
    assert reason is not None
    assert reason.kind == "abort"
    assert pair.leaks() == []


@pytest.mark.parametrize("number", range(8))
def test_a_failed_step_sends_those_who_wait_for_kv_back_to_the_queue(number: int) -> None:
    def fail(step: Step) -> str | None:
        return "planted" if step.number == number else None

    pair = make_pair(polls=6)
    pair.decode.executor.faults = Faults(sample=fail)
    requests = [ask(uid, prompt=12) for uid in range(1, 5)]
    for request in requests:
        pair.send(request)
        for _ in range(4):
            pair.turn()
    pair.run()
    convicted = [r.uid for r in requests if (e := pair.decode.out.reason(r.uid)) is not None and e.kind == "error"]
    assert len(convicted) <= 1  # who was alone in the failed step
    for request in requests:
        if request.uid not in convicted:
            assert pair.decode.out.tokens(request.uid) == tokens_of(request)
    assert pair.leaks() == []


def test_a_full_server_does_not_take_more_than_it_can_start() -> None:
    pair = make_pair(Shape(page_size=1, num_pages=40, num_slots=8))
    requests = [ask(uid, prompt=18, max_new_tokens=12) for uid in range(1, 9)]
    for request in requests:
        pair.send(request)
    pair.run()
    assert [pair.decode.out.tokens(r.uid) for r in requests] == [tokens_of(r) for r in requests]
    assert pair.leaks() == []
