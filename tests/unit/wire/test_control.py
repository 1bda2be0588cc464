"""Tests of banyan.wire.control: which message may travel on which channel."""

from typing import get_args

import msgspec
import pytest

from banyan.wire.base import Message
from banyan.wire.control import (
    ControlReq,
    FlushCacheReqInput,
    FromChild,
    ProbeReply,
    ToDetokenizer,
    ToFront,
    ToScheduler,
)
from tests.unit.wire.examples import EXAMPLES, ints, longs, message_types

UNIONS = {"scheduler": ToScheduler, "detokenizer": ToDetokenizer, "front": ToFront, "parent": FromChild}


@pytest.mark.parametrize("union", UNIONS.values(), ids=UNIONS.keys())
def test_a_union_takes_its_own_messages_and_no_others(union: object) -> None:
    members = get_args(union)
    decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(union)
    for example in EXAMPLES:
        frame = msgspec.msgpack.encode(example)
        if isinstance(example, members):
            assert decoder.decode(frame) == example
        else:
            with pytest.raises(msgspec.ValidationError):
                decoder.decode(frame)


def test_every_control_request_can_be_sent_to_a_scheduler() -> None:
    assert {kind for kind in message_types() if issubclass(kind, ControlReq)} <= set(get_args(ToScheduler))


def test_a_call_has_a_front_and_a_number() -> None:
    for field in ("front", "call"):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"type": "FlushCacheReqInput", "front": 0, "call": 0, field: -1}, FlushCacheReqInput)


def test_probe_rows_that_differ_are_a_mismatch() -> None:
    assert ProbeReply(front=0, replica=0, uids=longs(1), epochs=ints(0), next=b"").mismatch()
    assert ProbeReply(front=0, replica=0, uids=longs(1), epochs=b"", next=ints(0)).mismatch()
    assert ProbeReply(front=0, replica=0, uids=b"", epochs=ints(0), next=ints(0)).mismatch()
    assert not ProbeReply(front=0, replica=0, uids=longs(1), epochs=ints(0), next=ints(0)).mismatch()
