"""FakeExecutor gives the oracle's tokens for correct steps, and faults for all others."""

import time
from dataclasses import replace

import numpy as np
import pytest

from banyan.plan import U32, Admission, Step, StepResult
from banyan.wire.base import I32
from banyan.wire.control import GetServerInfoReq
from banyan.wire.request import LogprobSpec, SamplingParams
from banyan.worker.clock import VirtualClock
from banyan.worker.fake import FakeExecutor, Faults, Latency, StepError
from banyan.worker.fake_kv import DeviceFault
from banyan.worker.oracle import EOS, MASK_WORDS, VOCAB_SIZE, Oracle

PAGE = 4
PROMPT = np.frombuffer(b"hello you", np.uint8).astype(np.int32)  # nine tokens, three pages
SAMPLING = SamplingParams(max_new_tokens=12, temperature=0.7, ignore_eos=True)
SEED = 11
EXPECTED = Oracle().generate(PROMPT.tolist(), SAMPLING, SEED)


def column(*values: int) -> I32:
    return np.array(values, np.int32)


def device(latency: Latency | None = None, stages: int = 1) -> FakeExecutor:
    return FakeExecutor(
        num_pages=32,
        page_size=PAGE,
        num_slots=4,
        max_pages_per_slot=8,
        oracle=Oracle(),
        clock=VirtualClock(),
        latency=latency,
        stages=stages,
    )


def admission(slot: int = 1, prompt: I32 = PROMPT) -> Admission:
    return Admission(
        slot=slot, uid=100 + slot, epoch=0, sampling=SAMPLING, seed=SEED, prompt_len=len(prompt), history=prompt
    )


def extend(number: int, slot: int = 1, start: int = 0, stop: int = len(PROMPT), *, first_page: int = 1) -> Step:
    """Feed a part of PROMPT; pages first_page.. are given to the slot when the part starts it."""
    pages = np.arange(6, dtype=np.int32)
    fresh = start == 0
    return Step(
        number=number,
        extend_slots=column(slot),
        extend_starts=column(start),
        extend_lengths=column(stop - start),
        extend_tokens=PROMPT[start:stop],
        extend_samples=np.array([stop == len(PROMPT)]),
        page_slots=np.full(6, slot, np.int32) if fresh else column(),
        page_indices=pages if fresh else column(),
        page_ids=pages + np.int32(first_page) if fresh else column(),
        admissions=(admission(slot),) if fresh else (),
    )


def decode(number: int, position: int, slot: int = 1) -> Step:
    return Step(number=number, decode_slots=column(slot), decode_positions=column(position))


def run(executor: FakeExecutor, step: Step, masks: U32 | None = None) -> StepResult:
    return executor.sample(executor.forward(step), masks).wait()


def finish(executor: FakeExecutor, tokens: list[int], number: int, slot: int = 1) -> list[int]:
    while len(tokens) < len(EXPECTED):
        tokens.append(int(run(executor, decode(number, len(PROMPT) + len(tokens) - 1, slot)).tokens[0]))
        number += 1
    return tokens


def test_prefill_and_decode_give_the_oracles_tokens() -> None:
    executor = device()
    assert finish(executor, run(executor, extend(0)).tokens.tolist(), 1) == EXPECTED
    assert executor.faults_seen == []


def test_chunks_of_a_prompt_do_not_sample_but_the_last() -> None:
    executor = device()
    assert run(executor, extend(0, stop=3)).tokens.tolist() == [-1]
    assert run(executor, extend(1, start=3, stop=8)).tokens.tolist() == [-1]
    assert finish(executor, run(executor, extend(2, start=8)).tokens.tolist(), 3) == EXPECTED


def test_steps_may_be_launched_before_earlier_ones_are_waited_for() -> None:
    executor = device()
    steps = [extend(0), *(decode(number, len(PROMPT) + number - 1) for number in range(1, len(EXPECTED)))]
    pendings = [executor.sample(executor.forward(step), None) for step in steps]
    assert [int(p.wait().tokens[0]) for p in pendings] == EXPECTED


def shared(number: int) -> Step:
    """Slot 2 reads the two full pages of slot 1's prompt and computes only the last token."""
    return Step(
        number=number,
        extend_slots=column(2),
        extend_starts=column(8),
        extend_lengths=column(1),
        extend_tokens=PROMPT[8:],
        extend_samples=np.array([True]),
        page_slots=column(2, 2, 2),
        page_indices=column(0, 1, 2),
        page_ids=column(1, 2, 20),
        admissions=(admission(2),),
    )


def test_a_prefix_can_be_read_from_another_slots_pages() -> None:
    executor = device()
    run(executor, extend(0))
    assert run(executor, shared(1)).tokens[0] == EXPECTED[0]


def test_a_row_can_read_what_an_earlier_row_of_the_same_step_wrote() -> None:
    first, second = extend(0), shared(0)
    both = Step(
        number=0,
        extend_slots=column(1, 2),
        extend_starts=column(0, 8),
        extend_lengths=column(9, 1),
        extend_tokens=np.concatenate([PROMPT, PROMPT[8:]]),
        extend_samples=np.array([True, True]),
        page_slots=np.concatenate([first.page_slots, second.page_slots]),
        page_indices=np.concatenate([first.page_indices, second.page_indices]),
        page_ids=np.concatenate([first.page_ids, second.page_ids]),
        admissions=first.admissions + second.admissions,
    )
    assert run(device(), both).tokens.tolist() == [EXPECTED[0]] * 2
    swapped = replace(
        both,
        extend_slots=column(2, 1),
        extend_starts=column(8, 0),
        extend_lengths=column(1, 9),
        extend_tokens=np.concatenate([PROMPT[8:], PROMPT]),
    )
    with pytest.raises(DeviceFault, match="holds nothing"):
        run(device(), swapped)


def test_resume_with_committed_tokens_continues_the_same_text() -> None:
    history = np.concatenate([PROMPT, column(*EXPECTED[:5])])
    step = replace(
        extend(0),
        extend_lengths=column(len(history)),
        extend_tokens=history,
        admissions=(replace(admission(), history=history),),
    )
    executor = device()
    assert finish(executor, EXPECTED[:5] + run(executor, step).tokens.tolist(), 1) == EXPECTED


def test_a_released_slot_can_be_admitted_again() -> None:
    executor = device()
    run(executor, extend(0))
    again = replace(extend(1, first_page=10), released=column(1))
    assert finish(executor, run(executor, again).tokens.tolist(), 2) == EXPECTED


@pytest.mark.parametrize(
    ("prepare", "step", "match"),
    [
        (None, decode(0, 3), "without admission"),
        (None, replace(extend(0), page_ids=column(0, 1, 2, 3, 4, 5)), "no such page-table entries"),
        (
            None,
            replace(extend(0), page_slots=column(), page_indices=column(), page_ids=column()),
            "no page for position 0",
        ),
        (None, replace(extend(0), admissions=(admission(), admission())), "admitted twice"),
        (None, replace(extend(0), admissions=(admission(9),)), "slot 9 is outside"),
        (None, replace(extend(0), extend_tokens=PROMPT[::-1].copy()), "not those of the admission"),
        (None, replace(extend(0), extend_tokens=PROMPT + np.int32(300)), "outside the vocabulary"),
        (None, replace(extend(0), extend_lengths=column(4)), "extend_tokens and extend_lengths disagree"),
        (None, replace(extend(0, start=0, stop=9), extend_lengths=column(0), extend_tokens=column()), "are none"),
        (None, replace(extend(0), extend_starts=column(10)), "after the end of the admission"),
        (None, shared(0), "page 1 should hold position 0 of its sequence; it holds nothing"),
        (extend(0), extend(0, slot=2, first_page=10), "step numbers must rise"),
        (extend(0), extend(1), "admitted twice"),
        (extend(0), replace(extend(1), released=column(1), masked_rows=column(0)), "1 rows need a mask, 0 masks came"),
        (extend(0), decode(1, len(PROMPT) + 1), "a decode row at 10, where the slot has 9 positions"),
        (extend(0, stop=4), decode(1, 4), "last token -1"),
        (extend(0, stop=4), extend(1, start=5), "a row starts at 5 after 4 positions"),
        (extend(0), extend(1, slot=2, first_page=2), None),
    ],
)
def test_what_no_correct_scheduler_asks_for(prepare: Step | None, step: Step, match: str | None) -> None:
    executor = device()
    if prepare is not None:
        run(executor, prepare)
    if match is None:  # slot 2 was given slot 1's pages: that shows when slot 1 reads them
        run(executor, step)
        step, match = decode(2, len(PROMPT)), "belongs to another sequence or is stale"
    with pytest.raises(DeviceFault, match=match):
        run(executor, step)
    assert len(executor.faults_seen) == 1
    with pytest.raises(DeviceFault, match="without recover"):
        executor.forward(decode(9, 1))


def test_a_pipeline_does_not_know_a_token_before_its_last_stage() -> None:
    executor = device(stages=2)
    executor.sample(executor.forward(extend(0)), None)
    with pytest.raises(DeviceFault, match="has not left the pipeline"):
        executor.forward(decode(1, len(PROMPT)))


def test_waiting_out_of_order_is_a_fault() -> None:
    executor = device()
    executor.sample(executor.forward(extend(0)), None)
    second = executor.sample(executor.forward(decode(1, len(PROMPT))), None)
    with pytest.raises(DeviceFault, match="before an earlier one"):
        second.wait()


@pytest.mark.parametrize("place", ["forward", "sample", "wait"])
def test_planted_failures_at_each_place_and_recovery(place: str) -> None:
    executor = device()
    run(executor, extend(0))

    def fail(step: Step) -> str | None:
        return "planted" if 102 in executor.uids(step) else None

    executor.faults = Faults(
        forward=fail if place == "forward" else None,
        sample=fail if place == "sample" else None,
        wait=fail if place == "wait" else None,
    )
    with pytest.raises(StepError, match="planted"):
        run(executor, extend(1, slot=2, first_page=10))
    executor.recover()
    # What step 0 wrote is still there; what step 1 wrote is not.
    executor.faults = Faults()
    assert run(executor, shared(2)).tokens[0] == EXPECTED[0]
    stale = replace(shared(3), released=column(2), page_ids=column(10, 11, 20))
    with pytest.raises(DeviceFault, match="holds nothing"):
        run(executor, stale)


def test_rows_may_fail_alone() -> None:
    executor = device()
    run(executor, extend(0))
    run(executor, extend(1, slot=2, first_page=10))
    executor.faults = Faults(rows=lambda step: {1: "not finite"})
    both = Step(number=2, decode_slots=column(1, 2), decode_positions=column(9, 9))
    result = run(executor, both)
    assert result.tokens.tolist() == [EXPECTED[1], -1]
    assert result.failed == ((1, "not finite"),)


def test_masks_limit_the_tokens() -> None:
    executor = device()
    mask: U32 = np.zeros((1, MASK_WORDS), np.uint32)
    mask[0, 0x58 // 32] = 1 << 0x58 % 32
    assert run(executor, replace(extend(0), masked_rows=column(0)), mask).tokens.tolist() == [0x58]
    nothing = replace(decode(1, len(PROMPT)), masked_rows=column(0))
    result = run(executor, nothing, np.zeros((1, MASK_WORDS), np.uint32))
    assert result.tokens.tolist() == [-1]
    assert result.failed == ((0, "the grammar allows no token"),)


def test_least_length_keeps_stop_tokens_away() -> None:
    banned = tuple(range(0x61, 0x7B))
    sampling = SamplingParams(max_new_tokens=12, min_new_tokens=12, stop_token_ids=banned, temperature=0.0)
    executor = device()
    step = replace(extend(0), admissions=(replace(admission(), sampling=sampling),))
    tokens = finish(executor, run(executor, step).tokens.tolist(), 1)
    assert tokens == Oracle().generate(PROMPT.tolist(), sampling, SEED)
    assert not set(tokens) & {*banned, EOS}


def test_embeddings_come_with_the_last_prompt_token() -> None:
    executor = device()
    entry = replace(admission(), sampling=None)
    no_sample = np.array([False])
    first = run(executor, replace(extend(0, stop=4), admissions=(entry,)))
    assert first.embeddings is None
    last = run(executor, replace(extend(1, start=4), extend_samples=no_sample))
    assert last.tokens.tolist() == [-1]
    assert last.embeddings is not None
    expected = Oracle().embeddings(Oracle().extend(0, PROMPT)[-1:])
    assert (last.embeddings == expected).all()


def test_logprobs_do_not_depend_on_chunks() -> None:
    spec = LogprobSpec(start=2, top=3, token_ids=(5, 6))
    entry = replace(admission(), logprobs=spec)
    whole = run(device(), replace(extend(0), admissions=(entry,))).logprobs[0]
    executor = device()
    first = run(executor, replace(extend(0, stop=5), admissions=(entry,))).logprobs[0]
    second = run(executor, extend(1, start=5)).logprobs[0]
    assert len(whole.prompt_values) == 7
    for name in ("prompt_values", "prompt_top_ids", "prompt_top_values", "prompt_chosen"):
        joined = np.concatenate([getattr(first, name), getattr(second, name)])
        assert (getattr(whole, name) == joined).all()
    assert (whole.value, whole.top_ids.tolist()) == (second.value, second.top_ids.tolist())
    assert len(whole.prompt_top_ids) == 21
    assert whole.prompt_chosen.shape == (14,)
    assert whole.chosen.shape == (2,)
    assert len(first.top_ids) == 0


def test_output_logprobs_only() -> None:
    entry = replace(admission(), logprobs=LogprobSpec())
    executor = device()
    found = run(executor, replace(extend(0), admissions=(entry,))).logprobs[0]
    assert len(found.prompt_values) == 0
    assert found.value < 0
    assert run(executor, decode(1, len(PROMPT))).logprobs[0].value < 0


def test_hidden_states_belong_to_the_sampled_tokens() -> None:
    entry = replace(admission(), hidden_states=True)
    ((row, state),) = run(device(), replace(extend(0), admissions=(entry,))).hidden_states
    assert (row, state.tolist()) == (0, Oracle().embeddings(Oracle().extend(0, PROMPT)[-1:])[0].tolist())


def test_time_passes_only_when_somebody_waits() -> None:
    executor = device(Latency(step_s=0.010, token_s=0.001))
    pending = executor.sample(executor.forward(extend(0)), None)
    assert executor.clock.now() == 0.0
    assert not pending.ready()
    pending.wait()
    assert pending.ready()
    assert executor.clock.now() == pytest.approx(0.019)


def busy_share(stages: int, depth: int) -> float:
    """Run steps on independent slots with `depth` in flight; return the share of time that a stage works."""
    executor = device(Latency(step_s=0.010, host_s=0.004), stages)
    pendings = []
    for number in range(40):
        slot = number % 4 + 1
        step = replace(extend(number, slot=slot, first_page=slot * 7 - 6), released=column(slot))
        pendings.append(executor.sample(executor.forward(step), None))
        if len(pendings) == depth:
            pendings.pop(0).wait()
    for pending in pendings:
        pending.wait()
    return executor.busy_s / stages / executor.clock.now()


def test_depth_overlaps_host_and_device() -> None:
    assert busy_share(stages=1, depth=1) == pytest.approx(10 / 14)
    assert busy_share(stages=1, depth=2) > 0.97


def test_depth_fills_the_stages() -> None:
    assert busy_share(stages=2, depth=1) == pytest.approx(5 / 14)
    assert busy_share(stages=2, depth=3) > 0.9


def test_nothing_to_do_for_control() -> None:
    assert device().control(GetServerInfoReq(front=0, call=1)) is None


def test_1024_decode_rows_take_well_under_a_millisecond() -> None:
    size, length = 1024, 256
    executor = FakeExecutor(
        num_pages=size * length // 16 * 2,
        page_size=16,
        num_slots=size,
        max_pages_per_slot=length // 16 + 4,
        oracle=Oracle(),
        clock=VirtualClock(),
    )
    slots = np.arange(1, size + 1, dtype=np.int32)
    per_slot = length // 16 + 4
    tokens = np.tile(np.arange(length, dtype=np.int32) % VOCAB_SIZE, size)
    step = Step(
        number=0,
        extend_slots=slots,
        extend_starts=np.zeros(size, np.int32),
        extend_lengths=np.full(size, length, np.int32),
        extend_tokens=tokens,
        extend_samples=np.ones(size, np.bool_),
        page_slots=np.repeat(slots, per_slot),
        page_indices=np.tile(np.arange(per_slot, dtype=np.int32), size),
        page_ids=np.arange(1, size * per_slot + 1, dtype=np.int32),
        admissions=tuple(admission(slot, tokens[:length]) for slot in slots.tolist()),
    )
    run(executor, step)
    times = []
    for number in range(1, 21):
        begin = time.perf_counter()
        run(
            executor,
            Step(number=number, decode_slots=slots, decode_positions=np.full(size, length - 1 + number, np.int32)),
        )
        times.append(time.perf_counter() - begin)
    assert min(times) < 0.001
