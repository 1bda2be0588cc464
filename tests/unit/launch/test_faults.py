"""Marked faults: only a marked request, only at its admission."""

import numpy as np
import pytest

from banyan.launch.faults import CRASH, HANG, RAISE, marked_faults
from banyan.plan import Admission, Step
from banyan.wire.request import SamplingParams


def step(*prompts: bytes) -> Step:
    return Step(
        number=1,
        admissions=tuple(
            Admission(
                slot=slot,
                uid=slot,
                epoch=0,
                sampling=SamplingParams(),
                seed=1,
                prompt_len=len(prompt),
                history=np.frombuffer(prompt, np.uint8).astype(np.int32),
            )
            for slot, prompt in enumerate(prompts, 1)
        ),
    )


def test_a_plain_step_is_left_alone() -> None:
    forward = marked_faults().forward
    assert forward is not None
    assert forward(step(b"hello", b"crash raise hang")) is None


def test_a_marked_request_fails_its_step() -> None:
    forward = marked_faults().forward
    assert forward is not None
    assert forward(step(b"hello", b"do " + RAISE)) == "a marked request asked for it"


def test_a_marked_request_crashes_or_hangs_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr("os.kill", lambda _pid, number: done.append(f"signal {number}"))
    monkeypatch.setattr("time.sleep", lambda seconds: done.append(f"sleep {seconds}"))
    forward = marked_faults().forward
    assert forward is not None
    forward(step(CRASH))
    forward(step(HANG))
    assert done == ["signal 11", "sleep 3600"]
