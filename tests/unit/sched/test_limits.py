"""Limits travel with a recording, so they survive encoding."""

import msgspec
import pytest

from banyan.sched.limits import Limits


def test_a_recording_can_carry_them() -> None:
    limits = Limits(num_slots=4, context_length=64, token_budget=16, policy="lpm", eos_ids=(2, 3), depth=2)
    assert msgspec.json.decode(msgspec.json.encode(limits), type=Limits) == limits


def test_a_policy_that_does_not_exist_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"num_slots": 1, "context_length": 2, "token_budget": 3, "policy": "lifo"}', type=Limits)


def test_they_do_not_change() -> None:
    limits = Limits(num_slots=4, context_length=64, token_budget=16)
    with pytest.raises(AttributeError):
        setattr(limits, "depth", 2)  # noqa: B010
