"""Roster: every move between queue, slots and the end keeps ledger, columns and maps in step."""

import numpy as np
import pytest

from banyan.memory.ledger.cache import RadixCache
from banyan.sched.limits import Limits
from banyan.sched.req import Phase, Req
from banyan.sched.roster import Roster
from banyan.wire.output import FinishReason
from banyan.wire.request import SamplingParams, TokenizedEmbeddingReqInput, TokenizedGenerateReqInput
from tests.fakes.world import embed, generate, words

ENDED = FinishReason(kind="length")
LIMITS = Limits(
    num_slots=3, context_length=64, token_budget=16, eos_ids=(256,), stream_interval=2, quiet_interval=50, max_queued=9
)


class Desk:
    """A roster with small helpers; nothing is launched here, so steps in flight are set by hand."""

    def __init__(self) -> None:
        self.cache = RadixCache(num_pages=16, page_size=4, num_slots=3, max_pages_per_slot=16)
        self.roster = Roster(LIMITS, self.cache)
        self.numbers = 0

    def queue(self, ask: TokenizedGenerateReqInput | TokenizedEmbeddingReqInput) -> Req:
        self.numbers += 1
        req = Req(ask, self.numbers, 0.0, 100.0)
        self.roster.enqueue(req)
        return req

    def admit(self, ask: TokenizedGenerateReqInput | TokenizedEmbeddingReqInput, feed: int = 0) -> Req:
        req = self.queue(ask)
        assert self.roster.occupy(req)
        self.roster.queue.remove(req)
        self.roster.admit(req, now=1.0)
        self.roster.start_prefill(req)
        self.feed(req, feed or len(req.tokens))
        return req

    def feed(self, req: Req, length: int) -> None:
        assert self.cache.reserve(np.asarray([req.slot], np.int32), np.asarray([length], np.int32))
        self.roster.columns.fed[req.slot] = length

    def write(self, req: Req, *tokens: int) -> None:
        columns = self.roster.columns
        for token in tokens:
            columns.tokens[req.slot, columns.known[req.slot]] = token
            columns.known[req.slot] += 1


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_request_waits_under_its_uid(desk: Desk) -> None:
    req = desk.queue(generate(7, [1, 2]))
    assert desk.roster.requests == {7: req}
    assert req in desk.roster.queue


def test_no_slot_is_no_admission(desk: Desk) -> None:
    for uid in range(3):
        desk.admit(generate(uid, words(uid, 4)))
    late = desk.queue(generate(9, [1]))
    assert not desk.roster.occupy(late)
    assert late.slot == 0


def test_giving_up_undoes_occupying(desk: Desk) -> None:
    first = desk.admit(generate(1, words(1, 8)))
    desk.roster.end(first, ENDED)
    before = desk.cache.usage()
    req = desk.queue(generate(2, [*words(1, 8), 5]))
    assert desk.roster.occupy(req)
    assert (req.reused, desk.cache.usage().locked) == (8, 2)
    desk.roster.give_up(req)
    assert (req.slot, desk.cache.usage(), desk.roster.slots.num_free) == (0, before, 3)
    assert desk.cache.check() == []


def test_the_device_hears_of_an_admission_once(desk: Desk) -> None:
    sampling = SamplingParams(temperature=0.5)
    req = desk.admit(generate(7, [1, 2, 3], sampling=sampling, epoch=2, committed=[9], lora="a"))
    (admission,) = desk.roster.take_admissions()
    assert (admission.slot, admission.uid, admission.epoch, admission.seed) == (req.slot, 7, 2, 7)
    assert (admission.sampling, admission.lora, admission.prompt_len) == (sampling, "a", 3)
    assert admission.history.tolist() == [1, 2, 3, 9]
    assert desk.roster.take_admissions() == ()


def test_an_embedding_is_admitted_without_sampling(desk: Desk) -> None:
    desk.admit(embed(7, [1, 2, 3]))
    (admission,) = desk.roster.take_admissions()
    assert (admission.sampling, admission.logprobs, admission.seed) == (None, None, 0)


def test_who_left_before_the_device_heard_of_it_was_never_there(desk: Desk) -> None:
    first = desk.admit(generate(1, words(1, 4)))
    slot = first.slot
    desk.roster.retract(first)
    assert desk.roster.take_admissions() == ()
    assert desk.roster.take_released().tolist() == [slot]


def test_a_slot_that_changed_hands_unheard_is_announced_for_the_second(desk: Desk) -> None:
    first = desk.admit(generate(1, words(1, 4)))
    slot = first.slot
    desk.roster.retract(first)
    second = desk.admit(generate(2, words(2, 4)))
    assert second.slot == slot
    assert [a.uid for a in desk.roster.take_admissions()] == [2]
    assert desk.roster.take_released().tolist() == [slot]
    assert desk.roster.take_released().tolist() == []


@pytest.mark.parametrize(
    ("ask", "interval"),
    [
        (generate(1, [1], stream=True), 2),
        (generate(1, [1], stream=False), 50),
        (generate(1, [1], stream=False, sampling=SamplingParams(stop=("x",))), 2),
        (generate(1, [1], stream=False, sampling=SamplingParams(stop_regex=("x",))), 2),
        (embed(1, [1]), 50),
    ],
)
def test_who_streams_or_looks_for_a_stop_string_is_told_often(
    desk: Desk, ask: TokenizedGenerateReqInput | TokenizedEmbeddingReqInput, interval: int
) -> None:
    req = desk.admit(ask)
    assert desk.roster.columns.interval[req.slot] == interval


def test_end_of_text_is_a_stop_token_unless_ignored(desk: Desk) -> None:
    plain = desk.admit(generate(1, [1], sampling=SamplingParams(stop_token_ids=(5,))))
    ignoring = desk.admit(generate(2, [1], sampling=SamplingParams(stop_token_ids=(5,), ignore_eos=True)))
    stop_ids = desk.roster.columns.stop_ids
    assert stop_ids[plain.slot].tolist() == [5, 256, -1, -1]
    assert stop_ids[ignoring.slot].tolist() == [5, -1, -1, -1]


def test_the_first_admission_is_the_one_that_counts_for_the_user(desk: Desk) -> None:
    req = desk.admit(generate(1, words(1, 9)))
    desk.roster.retract(req)
    assert desk.roster.occupy(req)
    desk.roster.admit(req, now=5.0)
    assert req.reused == 8
    assert (req.admitted_at, req.cached_tokens) == (1.0, 0)


def test_the_decode_batch_lists_the_oldest_admission_first(desk: Desk) -> None:
    reqs = [desk.admit(generate(uid, words(uid, 4))) for uid in range(3)]
    for req in (reqs[1], reqs[0], reqs[2]):
        desk.roster.start_decode(req)
    assert desk.roster.running_slots().tolist() == [reqs[1].slot, reqs[0].slot, reqs[2].slot]
    assert not desk.roster.prefilling
    desk.roster.end(reqs[0], ENDED)
    assert desk.roster.running_slots().tolist() == [reqs[1].slot, reqs[2].slot]


def test_who_is_held_is_in_no_batch(desk: Desk) -> None:
    req = desk.admit(generate(1, words(1, 4)))
    desk.roster.start_decode(req)
    desk.roster.hold(req)
    assert req.phase is Phase.HELD
    assert not desk.roster.running
    assert desk.roster.running_slots().tolist() == []


def test_the_end_of_a_waiting_request(desk: Desk) -> None:
    req = desk.queue(generate(1, [1]))
    desk.roster.end(req, ENDED)
    assert (req.phase, len(desk.roster.queue), desk.roster.requests) == (Phase.DONE, 0, {})


def test_an_end_frees_the_slot_and_keeps_what_is_both_fed_and_known(desk: Desk) -> None:
    req = desk.admit(generate(1, words(1, 6)))
    desk.write(req, 50, 51, 52)
    desk.feed(req, 8)  # the token at position 8 is known but was never fed
    slot = req.slot
    desk.roster.end(req, ENDED)
    assert (req.slot, desk.roster.by_slot[slot], desk.roster.slots.num_free) == (0, None, 3)
    assert desk.cache.peek(req.namespace(0), np.asarray([*words(1, 6), 50, 51, 52, 53], np.int32)) == 8
    assert desk.cache.check() == []


def test_kv_of_tokens_that_do_not_count_is_not_kept(desk: Desk) -> None:
    """A step launched after the end fed a token that nobody will ever see."""
    req = desk.admit(generate(1, words(1, 6)))
    desk.write(req, 50)
    desk.feed(req, 8)
    desk.roster.end(req, ENDED)
    assert desk.cache.peek(req.namespace(0), np.asarray([*words(1, 6), 50, 51], np.int32)) == 4


@pytest.mark.parametrize("way_out", ["end", "retract"])
def test_a_slot_is_not_given_back_while_a_step_touches_it(desk: Desk, way_out: str) -> None:
    req = desk.admit(generate(1, words(1, 6)))
    slot = req.slot
    desk.roster.start_decode(req)
    desk.roster.columns.in_flight[slot] = 2
    if way_out == "end":
        desk.roster.end(req, ENDED)
    else:
        desk.roster.retract(req)
    assert (req.slot, desk.roster.slots.num_free) == (slot, 2)
    assert not desk.roster.running
    desk.roster.columns.in_flight[slot] = 0
    desk.roster.settle(req)
    assert (req.slot, desk.roster.slots.num_free) == (0, 3)
    assert (req in desk.roster.queue) == (way_out == "retract")


def test_a_retracted_request_goes_on_where_it_was(desk: Desk) -> None:
    req = desk.admit(generate(1, words(1, 6)))
    desk.roster.start_decode(req)
    desk.write(req, 50, 51)
    desk.feed(req, 7)
    desk.roster.columns.sent[req.slot] = 7
    desk.roster.retract(req)
    assert req.tokens.tolist() == [*words(1, 6), 50, 51]
    assert (req.sent, req.retractions, desk.roster.retractions) == (7, 1, 1)
    assert desk.roster.requests[1] is req


def test_after_a_failed_step_nothing_private_is_trusted(desk: Desk) -> None:
    req = desk.admit(generate(1, words(1, 8)))
    desk.roster.start_decode(req)
    desk.roster.columns.in_flight[req.slot] = 3
    desk.roster.forget_kv(req)
    assert (req.slot, req.retractions) == (0, 1)
    assert req in desk.roster.queue
    assert desk.cache.usage().free == 16
    assert (desk.roster.columns.in_flight == 0).all()


def test_after_a_failed_step_who_had_ended_does_not_come_back(desk: Desk) -> None:
    req = desk.admit(generate(1, words(1, 8)))
    desk.roster.columns.in_flight[req.slot] = 1
    desk.roster.end(req, ENDED)
    desk.roster.forget_kv(req)
    assert req not in desk.roster.queue
    assert desk.roster.slots.num_free == 3


def test_an_old_incarnation_does_not_take_the_name_of_the_new_one_with_it(desk: Desk) -> None:
    old = desk.admit(generate(1, words(1, 8)))
    desk.roster.columns.in_flight[old.slot] = 1
    desk.roster.end(old, ENDED)
    new = desk.queue(generate(1, words(1, 8), epoch=1))
    desk.roster.columns.in_flight[old.slot] = 0
    desk.roster.settle(old)
    assert desk.roster.requests == {1: new}
    assert new in desk.roster.queue


@pytest.mark.parametrize(("kind", "locked"), [("length", 2), ("stop", 2), ("abort", 0), ("error", 0)])
def test_a_session_keeps_the_prefix_of_a_request_that_ended_well(desk: Desk, kind: str, locked: int) -> None:
    reasons = {"length": ENDED, "stop": FinishReason(kind="stop"), "abort": FinishReason(kind="abort")}
    req = desk.admit(generate(1, words(1, 9), session="s"))
    desk.roster.end(req, reasons.get(kind, FinishReason(kind="error")))
    assert desk.cache.usage().locked == locked
    assert desk.cache.check() == []
