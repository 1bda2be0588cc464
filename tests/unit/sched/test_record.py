"""A record replays to the same steps, and any other decision is noticed."""

import io
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banyan.plan import Admission, Step, Transfer
from banyan.sched.loop import Turn
from banyan.sched.record import (
    AnyEntry,
    Committed,
    Failed,
    Launched,
    Recorder,
    Setup,
    Turned,
    read_entries,
    replay,
    replay_bytes,
    step_hash,
)
from banyan.wire.base import I32
from banyan.wire.request import SamplingParams
from tests.fakes.grammar import make_grammar
from tests.fakes.server import Shape
from tests.replay.make import SHAPE, record, setup_of

ONE: I32 = np.array([1], np.int32)
TWO: I32 = np.array([1, 2], np.int32)
ADMISSION = Admission(slot=1, uid=2, epoch=0, sampling=SamplingParams(), seed=3, prompt_len=1, history=ONE)
TRANSFER = Transfer(id=1, source="device", target="host", source_pages=ONE, target_pages=ONE)
STEP = Step(number=4)
RECORD = record(SHAPE, seed=3)


def rewrite(entries: list[AnyEntry]) -> bytes:
    """Write entries as a recorder would."""
    file = io.BytesIO()
    assert isinstance(entries[0], Setup)
    recorder = Recorder(file, entries[0])
    for entry in entries[1:]:
        recorder._write(entry)
    return file.getvalue()


def test_every_field_of_a_step_is_in_its_hash() -> None:
    others: dict[str, Any] = {
        "number": 5,
        "extend_samples": np.array([True]),
        "admissions": (ADMISSION,),
        "transfers": (TRANSFER,),
        "needs_history": True,
        "steady": True,
    }
    hashes = {step_hash(STEP)}
    for field in fields(Step):
        hashes.add(step_hash(replace(STEP, **{field.name: others.get(field.name, ONE)})))
    assert len(hashes) == 1 + len(fields(Step))


def test_every_field_of_an_admission_and_a_transfer_is_in_the_hash() -> None:
    admissions = [
        replace(ADMISSION, slot=2),
        replace(ADMISSION, uid=3),
        replace(ADMISSION, epoch=1),
        replace(ADMISSION, sampling=None),
        replace(ADMISSION, seed=4),
        replace(ADMISSION, prompt_len=2),
        replace(ADMISSION, history=TWO),
        replace(ADMISSION, hidden_states=True),
        replace(ADMISSION, lora="a"),
    ]
    transfers = [
        replace(TRANSFER, id=2),
        replace(TRANSFER, source="disk"),
        replace(TRANSFER, target="disk"),
        replace(TRANSFER, source_pages=TWO),
        replace(TRANSFER, target_pages=TWO),
    ]
    hashes = {step_hash(replace(STEP, admissions=(a,))) for a in [ADMISSION, *admissions]}
    hashes |= {step_hash(replace(STEP, transfers=(t,))) for t in [TRANSFER, *transfers]}
    assert len(hashes) == len(admissions) + len(transfers) + 2


def test_columns_do_not_run_into_each_other() -> None:
    left = replace(STEP, page_slots=TWO, page_indices=ONE)
    right = replace(STEP, page_slots=ONE, page_indices=TWO)
    assert step_hash(left) != step_hash(right)


@pytest.mark.parametrize(
    "shape",
    [
        SHAPE,
        Shape(depth=1, num_pages=24, num_slots=5, context_length=128, policy="priority"),
        Shape(depth=4, chained=False, stages=4, cache="chunk", num_pages=60, context_length=128),
        Shape(depth=3, page_size=1, num_pages=100, token_budget=16, context_length=128, policy="dfs-weight"),
    ],
)
def test_a_record_replays_to_the_same_steps(shape: Shape) -> None:
    data = record(shape, seed=5)
    report = replay_bytes(data, make_grammar)
    assert report.mismatches == ()
    assert report.steps == sum(isinstance(entry, Launched) for entry in read_entries(data)) > 50
    assert any(isinstance(entry, Failed) for entry in read_entries(data))


def test_replay_reads_a_file(tmp_path: Path) -> None:
    path = tmp_path / "record"
    path.write_bytes(RECORD)
    assert replay(path, make_grammar).mismatches == ()


@settings(deadline=None, max_examples=40)
@given(st.integers(0, len(RECORD)))
def test_a_record_cut_off_anywhere_replays_as_far_as_it_goes(size: int) -> None:
    data = RECORD[:size]
    entries = list(read_entries(data))
    if not entries:
        with pytest.raises(TypeError, match="not a record"):
            replay_bytes(data, make_grammar)
        return
    report = replay_bytes(data, make_grammar)
    assert report.mismatches == ()
    assert report.steps == sum(isinstance(entry, Launched) for entry in entries)


def test_another_decision_is_noticed_at_its_step() -> None:
    entries = list(read_entries(RECORD))
    index = next(i for i, e in enumerate(entries) if isinstance(e, Launched) and e.number == 20)
    entries[index] = Launched(20, b"\0" * 8)
    report = replay_bytes(rewrite(entries), make_grammar)
    assert report.mismatches[0].endswith("step 20 differs")
    assert report.steps == 20


def test_another_token_is_noticed_by_its_consequences() -> None:
    entries = list(read_entries(RECORD))
    index = next(i for i, e in enumerate(entries) if isinstance(e, Committed) and e.number == 20)
    committed = entries[index]
    assert isinstance(committed, Committed)
    ended = np.full(len(committed.tokens) // 4, 256, np.int32).tobytes()
    entries[index] = Committed(20, ended, committed.failed)
    report = replay_bytes(rewrite(entries), make_grammar)
    assert len(report.mismatches) == 1
    assert 20 < report.steps < 40


def test_other_settings_are_noticed() -> None:
    entries = list(read_entries(RECORD))
    setup = entries[0]
    assert isinstance(setup, Setup)
    entries[0] = msgspec.structs.replace(setup, num_pages=setup.num_pages + 20)
    assert len(replay_bytes(rewrite(entries), make_grammar).mismatches) == 1


def test_steps_that_do_not_come_are_noticed() -> None:
    entries = list(read_entries(RECORD))
    kept = [e for e in entries if not (isinstance(e, Turned) and e.messages)]
    report = replay_bytes(rewrite(kept), make_grammar)
    assert report.steps == 0
    assert "steps were recorded, 0 came" in report.mismatches[0]


def test_a_second_setup_is_refused() -> None:
    with pytest.raises(ValueError, match="one Setup"):
        replay_bytes(rewrite([setup_of(SHAPE), setup_of(SHAPE)]))


def test_an_idle_turn_costs_few_bytes() -> None:
    file = io.BytesIO()
    recorder = Recorder(file, setup_of(SHAPE))
    before = len(file.getvalue())
    recorder.turn(Turn(1.0, []))
    assert len(file.getvalue()) - before < 32
