"""Tests of banyan.text.journal: fencing, losses, probes, trials."""

import time

import pytest

from banyan.text.entry import Accepted, Actions
from banyan.text.journal import MAX_EPOCH, Journal, JournalFull
from banyan.wire.base import i32, i64, make_uid
from banyan.wire.control import PeerLost, PeerRestarted, ProbeReply, ToScheduler
from banyan.wire.output import BatchEmbeddingOut, FinishReason, HiddenStates, Logprobs
from banyan.wire.request import AbortReq, ProbeReq, TokenizedEmbeddingReqInput, TokenizedGenerateReqInput
from tests.unit.text.wiring import Out, ended, floats, ints, longs, request, str_batch


def journal(*uids: int, replicas: int = 1, capacity: int = 100) -> Journal:
    made = Journal(front=0, num_replicas=replicas, probe_interval_s=5.0, capacity=capacity)
    for uid in uids:
        assert made.open(request(uid), 0.0) == Actions([request(uid)], [])
    return made


def entered(messages: list[ToScheduler]) -> dict[int, tuple[int, list[int]]]:
    """The requests among messages: uid -> (epoch, committed)."""
    return {
        message.uid: (message.epoch, i32(message.committed).tolist())
        for message in messages
        if isinstance(message, TokenizedGenerateReqInput)
    }


def aborted(messages: list[ToScheduler]) -> dict[int, int]:
    """The aborts among messages: uid -> the epoch below which it ends."""
    found: dict[int, int] = {}
    for message in messages:
        if isinstance(message, AbortReq):
            assert message.quiet
            found |= dict(zip(i64(message.uids).tolist(), i32(message.below).tolist(), strict=True))
    return found


def restart(incarnation: int = 1, suspects: tuple[int, ...] = (), newcomers: tuple[int, ...] = ()) -> PeerRestarted:
    return PeerRestarted(
        kind="scheduler", index=0, incarnation=incarnation, suspects=longs(*suspects), newcomers=longs(*newcomers)
    )


def only(accepted: list[Accepted]) -> Accepted:
    (one,) = accepted
    return one


# -- fencing


def test_rows_in_order_are_accepted() -> None:
    made = journal(1, 2)
    first = made.accept(str_batch(Out(1, 0, [7], "a"), Out(2, 0, [8, 9], "bc")), 1.0)
    assert [(row.uid, row.tokens, row.text, row.first) for row in first] == [
        (1, ints(7), "a", True),
        (2, ints(8, 9), "bc", True),
    ]
    second = only(made.accept(str_batch(Out(1, 1, [7], "d", offset=1, finished=ended(2))), 1.0))
    assert (second.first, second.finished) == (False, ended(2))
    assert (1 in made, 2 in made, len(made)) == (False, True, 1)
    assert made.counters.accepted == 3
    assert made.actions() == Actions()


def test_old_epochs_and_strangers_are_fenced() -> None:
    made = journal(1)
    made.restarted(restart(), 1.0)
    assert made.accept(str_batch(Out(1, 0, [7], "a", epoch=0), Out(5, 0, [7], "a")), 1.0) == []
    assert made.counters.fenced == 2
    assert only(made.accept(str_batch(Out(1, 0, [7], "a", epoch=1)), 1.0)).text == "a"


def test_somebody_still_working_on_a_request_that_is_gone_is_told_to_stop() -> None:
    made = journal()
    theirs = make_uid(1, 1)
    made.accept(str_batch(Out(5, 3, [7], "a", epoch=2), Out(6, 0, [], finished=ended(0)), Out(theirs, 0, [1])), 1.0)
    assert aborted(made.actions().messages) == {5: 3}


def test_repeated_rows_are_dropped_or_cut() -> None:
    made = journal(1)
    made.accept(str_batch(Out(1, 0, [7, 8], "ab")), 1.0)
    assert made.accept(str_batch(Out(1, 0, [7, 8], "ab")), 1.0) == []
    assert made.counters.duplicates == 1
    values = Logprobs(row=0, values=floats(-1, -2))
    states = HiddenStates(row=0, dim=2, values=floats(1, 2, 3, 4))
    again = Out(1, 1, [8, 9], "bc", offset=1, logprobs=values, hidden_states=states)
    row = only(made.accept(str_batch(again), 1.0))
    assert (row.tokens, row.text) == (ints(9), "c")
    assert row.logprobs is not None
    assert row.logprobs.values == floats(-2)
    assert row.hidden_states is not None
    assert row.hidden_states.values == floats(3, 4)
    end = only(made.accept(str_batch(Out(1, 1, [8], "bc", offset=1, finished=ended(3))), 1.0))
    assert (end.tokens, end.text, end.finished) == (b"", "", ended(3))


def test_text_that_comes_without_tokens_is_kept() -> None:
    made = journal(1)
    made.accept(str_batch(Out(1, 0, [7], "")), 1.0)
    assert only(made.accept(str_batch(Out(1, 1, [], "a")), 1.0)).text == "a"


@pytest.mark.parametrize("row", [Out(1, 3, [9], "c", offset=2), Out(1, 2, [9], "c", offset=3)])
def test_after_a_gap_a_request_enters_again(row: Out) -> None:
    made = journal(1)
    made.accept(str_batch(Out(1, 0, [7, 8], "ab")), 1.0)
    assert made.accept(str_batch(row), 1.0) == []
    messages = made.actions().messages
    assert isinstance(messages[0], AbortReq)
    assert (aborted(messages), entered(messages)) == ({1: 1}, {1: (1, [7, 8])})
    assert made.counters.gaps == 1
    assert made.accept(str_batch(Out(1, 4, [9], "d", offset=3)), 1.0) == []
    assert made.counters.fenced == 1


def test_ends_that_the_scheduler_does_not_know_of_are_passed_on() -> None:
    made = journal(1, 2, 3, 4)
    rows = [
        Out(1, 0, [7], finished=ended(1, FinishReason(kind="stop", matched="##"))),
        Out(2, 0, [7], finished=ended(1, FinishReason(kind="stop", matched=7))),
        Out(3, 0, [7], finished=ended(1)),
        Out(4, 0, [], finished=ended(0, FinishReason(kind="error", message="no", status=503))),
    ]
    made.accept(str_batch(*rows), 1.0)
    assert aborted(made.actions().messages) == {1: 1, 4: 1}
    assert len(made) == 0


def test_embeddings_are_fenced_too() -> None:
    made = journal()
    for uid in (1, 2, 3):
        made.open(TokenizedEmbeddingReqInput(uid=uid, rid="", tokens=ints(1)), 0.0)
    failed = ended(0, FinishReason(kind="error", message="no", status=500))
    message = BatchEmbeddingOut(
        replica=0,
        uids=longs(1, 2, 3, 9),
        epochs=ints(0, 0, 5, 0),
        dim=2,
        vectors=floats(1, 2, 0, 0, 5, 6, 7, 8),
        finished=tuple(
            type(end)(row=i, reason=end.reason, prompt_tokens=3, cached_tokens=1, completion_tokens=0)
            for i, end in enumerate((ended(0), failed, ended(0), ended(0)))
        ),
    )
    first, second = made.accept_embeddings(message, 1.0)
    assert (first.uid, first.vector) == (1, floats(1, 2))
    assert (second.uid, second.vector, second.finished.reason.status) == (2, b"", 500)
    assert made.counters.fenced == 2
    assert aborted(made.actions().messages) == {2: 1}
    messages = made.restarted(restart(), 2.0).messages
    assert [m.epoch for m in messages if isinstance(m, TokenizedEmbeddingReqInput)] == [1]


def test_the_journal_is_bounded() -> None:
    made = journal(1, capacity=1)
    with pytest.raises(JournalFull, match="1 requests are live"):
        made.open(request(2), 0.0)
    assert 2 not in made


def test_an_aborted_request_is_gone_at_once() -> None:
    made = journal(1)
    assert aborted(made.abort(1, 1.0).messages) == {1: 1}
    assert made.abort(1, 1.0) == Actions()
    assert len(made) == 0


# -- processes that die


def test_what_a_dead_scheduler_held_enters_again_with_what_the_client_has() -> None:
    made = journal(1, 2, 3, replicas=2)
    made.accept(str_batch(Out(1, 0, [7], "a"), replica=0), 1.0)
    made.accept(str_batch(Out(2, 0, [8], "b"), replica=1), 1.0)
    messages = made.restarted(restart(), 2.0).messages
    assert isinstance(messages[0], AbortReq)
    assert aborted(messages) == {1: 1, 3: 1}
    assert entered(messages) == {1: (1, [7]), 3: (1, [])}
    assert made.counters.reentered == 2


def test_the_same_news_twice_is_heard_once() -> None:
    made = journal(1)
    assert entered(made.restarted(restart(1), 1.0).messages) == {1: (1, [])}
    assert made.restarted(restart(1), 1.0) == Actions()
    assert entered(made.restarted(restart(2), 1.0).messages) == {1: (2, [])}


def test_other_processes() -> None:
    made = journal(1, 2)
    made.accept(str_batch(Out(1, 0, [7], "a")), 1.0)
    controller = PeerRestarted(kind="controller", index=0, incarnation=1)
    assert entered(made.restarted(controller, 2.0).messages) == {2: (1, [])}
    detokenizer = PeerRestarted(kind="detokenizer", index=0, incarnation=1)
    assert entered(made.restarted(detokenizer, 2.0).messages) == {1: (1, [7]), 2: (2, [])}


def test_a_lost_replica_gives_its_requests_to_another() -> None:
    made = journal(1, replicas=2)
    actions = made.lost(PeerLost(kind="scheduler", index=1), 1.0)
    assert entered(actions.messages) == {1: (1, [])}
    assert made.replicas == {0}
    assert not made.down


@pytest.mark.parametrize("kind", ["scheduler", "detokenizer", "controller"])
def test_when_nothing_is_left_all_fail(kind: str) -> None:
    made = journal(1, 2)
    news = {k: PeerLost(kind=k, index=0, cause="it died") for k in ("scheduler", "detokenizer", "controller")}[kind]
    failures = made.lost(news, 1.0).failures
    assert [(failure.uid, failure.reason.status) for failure in failures] == [(1, 503), (2, 503)]
    assert made.down == f"the {kind} process is lost: it died"
    assert len(made) == 0


def test_a_request_that_is_lost_again_and_again_fails() -> None:
    made = journal(1)
    for incarnation in range(1, MAX_EPOCH + 1):
        assert entered(made.restarted(restart(incarnation), 1.0).messages) == {1: (incarnation, [])}
    (failure,) = made.restarted(restart(MAX_EPOCH + 1), 1.0).failures
    assert failure.reason.message == f"this request was lost {MAX_EPOCH} times"


# -- trials


def test_suspects_enter_in_groups() -> None:
    made = journal(1, 2, 3, 4, 5)
    messages = made.restarted(restart(1, suspects=(1, 2, 3, 4)), 1.0).messages
    assert set(entered(messages)) == {3, 4, 5}
    made.accept(str_batch(Out(3, 0, [7], "a", epoch=1), Out(5, 0, [7], "a", epoch=1)), 2.0)
    assert made.actions() == Actions()
    made.accept(str_batch(Out(4, 0, [7], "a", epoch=1, finished=ended(1))), 2.0)
    assert entered(made.actions().messages) == {1: (1, []), 2: (1, [])}


def test_the_guilty_one_fails_and_the_others_go_on() -> None:
    made = journal(1, 2, 3)
    assert set(entered(made.restarted(restart(1, (1, 2, 3), newcomers=(2,)), 1.0).messages)) == {2}
    actions = made.restarted(restart(2, (2,)), 2.0)
    (failure,) = actions.failures
    assert (failure.uid, failure.reason.kind, failure.reason.status) == (2, "error", 500)
    assert "engine_crash_isolated" in failure.reason.message
    assert entered(actions.messages) == {1: (1, []), 3: (1, [])}
    assert made.counters.convicted == 1
    assert 2 not in made


def test_tokens_that_were_on_their_way_are_kept_for_those_held_back() -> None:
    made = journal(1, 2)
    made.restarted(restart(1, (1, 2)), 1.0)
    assert only(made.accept(str_batch(Out(1, 0, [7], "a")), 2.0)).text == "a"
    made.accept(str_batch(Out(2, 0, [7], "a", epoch=1)), 2.0)
    assert entered(made.actions().messages) == {1: (1, [7])}


def test_while_somebody_must_crash_alone_nobody_else_enters() -> None:
    made = journal(1, 2, 3, 4)
    made.restarted(restart(1, (1, 2)), 1.0)
    messages = made.restarted(restart(2, (2, 3, 4)), 2.0).messages
    assert set(entered(messages)) == {2}
    assert made.open(request(5), 2.0) == Actions()
    actions = made.restarted(restart(3, (2,)), 3.0)
    assert [failure.uid for failure in actions.failures] == [2]
    assert set(entered(actions.messages)) == {1, 3, 4, 5}


def test_the_end_of_the_last_trial_lets_everybody_in() -> None:
    made = journal(1, 2)
    made.restarted(restart(1, (1, 2)), 1.0)
    made.restarted(restart(2, (1, 2)), 2.0)
    assert made.open(request(3), 2.0) == Actions()
    for uid in (2, 1):
        epoch = made._entries[uid].epoch
        made.accept(str_batch(Out(uid, 0, [7], "a", epoch=epoch)), 3.0)
        messages = made.actions().messages
    assert entered(messages) == {3: (1, [])}


def test_a_suspect_that_leaves_frees_the_others() -> None:
    made = journal(1, 2)
    made.restarted(restart(1, (1, 2)), 1.0)
    messages = made.abort(2, 2.0).messages
    assert (aborted(messages), entered(messages)) == ({2: 2, 1: 1}, {1: (1, [])})


def test_suspects_that_are_gone_are_not_waited_for() -> None:
    made = journal(1)
    messages = made.restarted(restart(1, (1, 8, 9)), 1.0).messages
    assert entered(messages) == {1: (1, [])}


def test_other_fronts_suspects_are_waited_for_but_not_for_ever() -> None:
    theirs = make_uid(1, 1)
    made = journal(1)
    assert made.restarted(restart(1, (1, theirs)), 1.0).messages == []
    assert made.tick(5.0).messages == []
    assert entered(made.tick(6.0).messages) == {1: (1, [])}


def test_fronts_agree_on_who_is_tried_first() -> None:
    """Or each would let its own suspect in, and both would crash together again."""
    theirs = make_uid(1, 1)
    made = journal(1, 2)
    made.restarted(restart(1, (1, 2)), 1.0)
    assert made.restarted(restart(2, (2, theirs)), 2.0).messages == []
    assert set(entered(made.tick(7.0).messages)) == {2}


def test_a_crash_beside_another_fronts_request_does_not_convict() -> None:
    theirs = make_uid(1, 1)
    made = journal(1)
    for incarnation in (1, 2, 3):
        assert made.restarted(restart(incarnation, (1, theirs)), 1.0).failures == []


# -- silence


def asked(messages: list[ToScheduler]) -> list[int]:
    return [uid for message in messages if isinstance(message, ProbeReq) for uid in i64(message.uids).tolist()]


def reply(uid: int, epoch: int, next_position: int = 0, replica: int = 0) -> ProbeReply:
    return ProbeReply(front=0, replica=replica, uids=longs(uid), epochs=ints(epoch), next=ints(next_position))


def test_silent_requests_are_asked_after_once_an_interval() -> None:
    made = journal(1, 2)
    made.accept(str_batch(Out(2, 0, [7], "a")), 4.0)
    assert asked(made.tick(4.9).messages) == []
    assert asked(made.tick(5.0).messages) == [1]
    assert asked(made.tick(5.1).messages) == []
    assert asked(made.tick(9.0).messages) == [2]
    assert asked(made.tick(10.0).messages) == [1]
    assert made.counters.probes == 3


def test_a_request_that_nobody_knows_enters_again() -> None:
    made = journal(1, replicas=2)
    made.tick(5.0)
    assert made.probe_reply(reply(1, -1, replica=0), 5.1) == Actions()
    assert entered(made.probe_reply(reply(1, -1, replica=1), 5.2).messages) == {1: (1, [])}
    assert made.probe_reply(reply(1, -1, replica=1), 5.3) == Actions()


def test_an_answer_about_an_older_epoch_is_a_no() -> None:
    made = journal(1)
    made.restarted(restart(), 0.0)
    made.tick(5.0)
    assert entered(made.probe_reply(reply(1, 0), 5.1).messages) == {1: (2, [])}


def test_a_request_that_waits_its_turn_is_left_alone() -> None:
    made = journal(1, replicas=2)
    for now in (5.0, 10.0, 15.0):
        assert asked(made.tick(now).messages) == [1]
        assert made.probe_reply(reply(1, 0, 0, replica=1), now) == Actions()
        assert made.probe_reply(reply(1, -1, 0, replica=0), now) == Actions()
    assert entered(made.restarted(restart(), 16.0).messages) == {}


def test_a_request_whose_output_was_lost_enters_again_after_another_interval() -> None:
    made = journal(1)
    made.tick(5.0)
    assert made.probe_reply(reply(1, 0, 3), 5.1) == Actions()
    made.tick(10.0)
    assert entered(made.tick(10.1).messages) == {1: (1, [])}


def test_output_that_comes_late_calls_it_off() -> None:
    made = journal(1)
    made.tick(5.0)
    made.probe_reply(reply(1, 0, 1), 5.1)
    made.accept(str_batch(Out(1, 0, [7], "a")), 6.0)
    assert entered(made.tick(10.9).messages) == {}


def test_those_held_back_are_not_asked_after() -> None:
    made = journal(1, 2)
    made.restarted(restart(1, (1, 2)), 0.0)
    assert asked(made.tick(5.0).messages) == [2]
    assert made.probe_reply(reply(1, -1), 5.0) == Actions()


def test_a_batch_of_1024_rows_costs_little() -> None:
    made = journal(*range(1024), capacity=1024)
    best = 1.0
    for position in range(10):
        message = str_batch(*(Out(uid, position, [65], "A", offset=position) for uid in range(1024)))
        started = time.thread_time()
        assert len(made.accept(message, 1.0)) == 1024
        best = min(best, time.thread_time() - started)
    assert best < 0.005
