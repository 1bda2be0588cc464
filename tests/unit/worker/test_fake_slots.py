"""FakeSlots keeps what admissions say, and nothing longer than a request has its slot."""

from dataclasses import replace

import numpy as np
import pytest

from banyan.plan import Admission, Step
from banyan.wire.request import LogprobSpec, SamplingParams
from banyan.worker.fake_kv import DeviceFault
from banyan.worker.fake_slots import FakeSlots, Launched

ADMISSION = Admission(
    slot=2,
    uid=9,
    epoch=0,
    sampling=SamplingParams(temperature=0.5, min_new_tokens=3),
    seed=77,
    prompt_len=5,
    history=np.arange(5, dtype=np.int32),
)


def test_an_admission_sets_the_slot_up() -> None:
    slots = FakeSlots(3)
    slots.admit(ADMISSION, origin=4)
    assert (slots.live[2], slots.uids[2], slots.seeds[2], slots.may_end[2]) == (True, 9, 77, 8)
    assert (slots.states[2], slots.origins[2], slots.lengths[2], slots.last[2]) == (4, 4, -1, -1)
    assert not slots.asks[2]


@pytest.mark.parametrize(
    "admission",
    [
        replace(ADMISSION, sampling=None),
        replace(ADMISSION, logprobs=LogprobSpec()),
        replace(ADMISSION, hidden_states=True),
        replace(ADMISSION, sampling=SamplingParams(min_new_tokens=1, stop_token_ids=(7,))),
    ],
)
def test_requests_that_are_looked_at_one_by_one(admission: Admission) -> None:
    slots = FakeSlots(3)
    slots.admit(admission, origin=0)
    assert slots.asks[2]


@pytest.mark.parametrize("sampling", [None, SamplingParams(temperature=0.0)])
def test_what_does_not_sample_has_no_seed(sampling: SamplingParams | None) -> None:
    slots = FakeSlots(3)
    slots.admit(replace(ADMISSION, sampling=sampling), origin=0)
    assert slots.seeds[2] == 0


def test_a_dropped_slot_can_be_admitted_again_but_not_a_live_one() -> None:
    slots = FakeSlots(3)
    slots.admit(ADMISSION, origin=0)
    with pytest.raises(DeviceFault, match="admitted twice"):
        slots.admit(ADMISSION, origin=0)
    slots.drop(np.array([2], np.int32))
    assert slots.uids[2] == -1
    assert slots.admissions == {}
    slots.admit(ADMISSION, origin=0)


@pytest.mark.parametrize("slot", [0, 4, -1])
def test_slots_that_do_not_exist(slot: int) -> None:
    with pytest.raises(DeviceFault, match=r"outside 1\.\.3"):
        FakeSlots(3).admit(replace(ADMISSION, slot=slot), origin=0)


def test_a_launched_step_has_a_place_for_every_row() -> None:
    step = Step(
        number=1,
        extend_slots=np.array([1], np.int32),
        extend_samples=np.array([False]),
        decode_slots=np.array([2, 3], np.int32),
    )
    launched = Launched.empty(step, ready_at=2.0)
    assert launched.slots.tolist() == [1, 2, 3]
    assert launched.samples.tolist() == [False, True, True]
    assert len(launched.states) == len(launched.texts) == len(launched.positions) == 3
