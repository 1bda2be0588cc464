"""Tests of banyan.wire.base."""

import msgspec
import numpy as np
import pytest

from banyan.wire.base import Message, f32, front_of, i32, i64, make_uid
from tests.unit.wire.examples import EXAMPLES, floats, ints, longs


def test_columns_are_views_of_their_bytes() -> None:
    assert i32(ints(1, -2)).tolist() == [1, -2]
    assert i64(longs(1 << 40, -1)).tolist() == [1 << 40, -1]
    assert f32(floats(0.5, -0.25)).tolist() == [0.5, -0.25]
    column = ints(1, 2, 3)
    assert np.shares_memory(i32(column), np.frombuffer(column, np.uint8))


def test_a_uid_tells_its_front() -> None:
    assert front_of(make_uid(5, 123)) == 5
    assert front_of(make_uid(0, (1 << 40) - 1)) == 0
    assert make_uid(1, 0) == make_uid(0, (1 << 40) - 1) + 1


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_messages_are_frozen_and_tagged_with_their_name(example: Message) -> None:
    first = type(example).__struct_fields__[0]
    with pytest.raises(AttributeError):
        setattr(example, first, getattr(example, first))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(example))["type"] == type(example).__name__


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_every_example_fits_itself_and_differs_from_every_default(example: Message) -> None:
    assert example.mismatch() == ""
    for field in msgspec.structs.fields(example):
        assert getattr(example, field.name) != field.default
