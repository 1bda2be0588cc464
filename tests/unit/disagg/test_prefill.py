"""A prefill server waits to be asked, computes prompts, sends pages, and holds nothing for long."""

import msgspec
import numpy as np
import pytest

from banyan.disagg.links.base import Key
from banyan.plan import Step
from banyan.wire.request import LogprobSpec, TokenizedGenerateReqInput
from banyan.worker.fake import Faults
from tests.unit.disagg.requests import abort, ask, make_pair, tokens_of

KEY = Key(1, 0)


def test_nothing_runs_before_a_decode_server_asks() -> None:
    pair = make_pair()
    pair.prefill.inbox.append(ask())
    for _ in range(5):
        assert pair.prefill.loop.turn()
    assert pair.prefill.scheduler.steps == 0
    pair.decode.inbox.append(ask())
    pair.run()
    assert pair.prefill.scheduler.steps == 1
    assert pair.decode.out.tokens(1) == tokens_of(ask())
    assert pair.leaks() == []


def test_it_says_nothing_to_the_detokenizer() -> None:
    pair = make_pair()
    pair.send(ask())
    pair.run()
    assert pair.prefill.out.heard == {}


def test_pages_are_held_until_they_are_sent_and_then_cached() -> None:
    pair = make_pair(polls=1000)
    pair.send(ask())
    while KEY not in pair.link.sends:
        pair.turn()
    usage = pair.prefill.scheduler.cache.usage()
    assert usage.locked + usage.private == 3
    pair.link.sends[KEY].polls_left = 0
    pair.run()
    usage = pair.prefill.scheduler.cache.usage()
    assert (usage.locked + usage.private, usage.cached) == (0, 2)
    assert pair.leaks() == []


def test_a_decode_server_that_never_asks_costs_a_lease() -> None:
    pair = make_pair()
    pair.prefill.inbox.append(ask())
    pair.run()
    reason = pair.prefill.out.reason(1)
    assert reason is not None
    assert (reason.kind, reason.status) == ("error", 503)
    assert 10.0 <= pair.clock.now() < 10.1
    assert pair.leaks() == []


def test_a_transfer_that_never_ends_costs_a_lease() -> None:
    pair = make_pair(polls=10**9)
    pair.send(ask())
    pair.run()
    assert pair.decode.out.tokens(1) == tokens_of(ask())
    assert pair.clock.now() < 10.5
    assert pair.leaks() == []


def test_a_first_token_that_is_the_last_needs_no_pages() -> None:
    pair = make_pair(polls=10**9)
    pair.send(ask(max_new_tokens=1))
    pair.run()
    reason = pair.decode.out.reason(1)
    assert reason is not None
    assert reason.kind == "length"
    assert pair.decode.out.tokens(1) == tokens_of(ask(max_new_tokens=1))
    assert pair.clock.now() < 1.0
    assert pair.leaks() == []


@pytest.mark.parametrize("asked", [ask(max_new_tokens=0), ask(logprobs=LogprobSpec())])
def test_what_does_not_travel_is_left_to_the_decode_server(asked: TokenizedGenerateReqInput) -> None:
    pair = make_pair()
    pair.send(asked)
    pair.run()
    assert pair.prefill.scheduler.steps == 0
    assert pair.prefill.out.heard == {}
    assert pair.decode.out.tokens(1) == tokens_of(asked)
    assert pair.leaks() == []


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("turns", range(12))
def test_an_abort_at_any_moment_leaves_nothing_behind(turns: int, quiet: bool) -> None:
    pair = make_pair(polls=4)
    pair.send(ask(prompt=40))
    pair.send(ask(uid=2))
    for _ in range(turns):
        pair.turn()
    pair.send(abort(1, quiet=quiet))
    pair.run()
    assert pair.decode.out.tokens(1) == tokens_of(ask(prompt=40))[: len(pair.decode.out.tokens(1))]
    assert pair.decode.out.tokens(2) == tokens_of(ask(uid=2))
    assert pair.leaks() == []


def test_an_abort_here_alone_makes_the_decode_server_compute_the_prompt() -> None:
    pair = make_pair(polls=1000)
    pair.send(ask())
    while KEY not in pair.link.sends:
        pair.turn()
    pair.prefill.inbox.append(abort(1))
    pair.run()
    assert pair.decode.out.tokens(1) == tokens_of(ask())
    assert pair.clock.now() < 1.0
    assert pair.leaks() == []


@pytest.mark.parametrize("number", range(4))
def test_a_failed_step_does_not_spoil_a_send(number: int) -> None:
    def fail(step: Step) -> str | None:
        return "planted" if step.number == number else None

    pair = make_pair(polls=6)
    pair.prefill.executor.faults = Faults(wait=fail)
    requests = [ask(uid, prompt=12) for uid in range(1, 5)]
    for request in requests:
        pair.send(request)
        pair.turn()
    pair.run()
    assert [pair.decode.out.tokens(r.uid) for r in requests] == [tokens_of(r) for r in requests]
    assert pair.leaks() == []


def test_a_resumed_request_travels_again() -> None:
    pair = make_pair()
    whole = tokens_of(ask())
    committed = np.array(whole[:2], np.int32).tobytes()
    resumed = msgspec.structs.replace(ask(epoch=3), committed=committed)
    pair.send(resumed)
    pair.run()
    assert pair.prefill.scheduler.steps == 1
    assert pair.decode.out.tokens(1, epoch=3) == whole[2:]
    assert pair.leaks() == []
