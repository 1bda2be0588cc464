"""Tests of banyan.wire.codec: golden bytes, what is refused, and the schema's hash."""

import json
import subprocess
import sys
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from banyan.wire.base import Message
from banyan.wire.codec import UNIONS, Codec, DecodeError, EncodeError, schema_hash
from banyan.wire.control import ControlReply, LoadReport, PeerLost, ToDetokenizer, ToFront, ToScheduler
from tests.unit.wire.examples import (
    EXAMPLES,
    GENERATE,
    HIDDEN_STATES,
    LOGPROBS,
    OPENED,
    SERVER_INFO,
    TOKEN_IDS,
    longs,
    message_types,
)

# What each example looked like on the wire when its type was last changed on purpose.
GOLDEN: dict[str, str] = json.loads(Path(__file__).with_name("golden.json").read_text())
CANARY = "prompt text that must not show"


def pack(tree: object) -> list[bytes]:
    """Encode builtins, so that a test can send what no struct would hold."""
    return [msgspec.msgpack.encode(tree)]


def test_every_message_type_has_an_example_and_golden_bytes() -> None:
    names = sorted(kind.__name__ for kind in message_types())
    assert names == sorted(type(example).__name__ for example in EXAMPLES)
    assert names == sorted(GOLDEN)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_golden_bytes(example: Message) -> None:
    codec = Codec[Message](type(example))
    golden = bytes.fromhex(GOLDEN[type(example).__name__])
    assert codec.encode(example) == [golden], "the wire format changed: if on purpose, change golden.json too"
    assert codec.decode([golden]) == example


def test_every_message_type_travels_in_some_union() -> None:
    travelling = {name.rpartition("/")[2] for name in msgspec.json.schema_components(UNIONS)[1]}
    assert travelling == {kind.__name__ for kind in message_types()}
    assert LoadReport in UNIONS
    assert set(get_args(ToScheduler)) <= {type(example) for example in EXAMPLES}


def test_a_frame_over_the_cap_is_refused_on_both_sides() -> None:
    size = len(Codec[ToScheduler](ToScheduler).encode(GENERATE)[0])
    exact = Codec[ToScheduler](ToScheduler, max_bytes=size)
    assert exact.decode(exact.encode(GENERATE)) == GENERATE
    small = Codec[ToScheduler](ToScheduler, max_bytes=size - 1)
    with pytest.raises(EncodeError, match=f"TokenizedGenerateReqInput has {size} bytes"):
        small.encode(GENERATE)
    with pytest.raises(DecodeError, match=f"{size} bytes"):
        small.decode(exact.encode(GENERATE))


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b""],
        [b"\xc1"],
        pack(None),
        pack([1, 2]),
        pack({"kind": "scheduler", "index": 1}),
        pack({"type": CANARY}),
        pack({"type": "LoadReport", "replica": 1}),
        pack({"type": "PeerLost", "kind": "scheduler"}),
        pack({"type": "PeerLost", "kind": CANARY, "index": 1}),
        pack({"type": "PeerLost", "kind": "scheduler", "index": CANARY}),
        pack({"type": "PeerLost", "kind": "scheduler", "index": 1, CANARY: 1}),
        pack({"type": "PeerLost", "kind": "scheduler", "index": 1.5}),
        pack({"type": "PeerLost", "kind": "scheduler", "index": 1}) * 2,
        [pack({"type": "PeerLost", "kind": "scheduler", "index": 1})[0] + b"\x00"],
        [pack({"type": "PeerLost", "kind": "scheduler", "index": 1})[0][:-1]],
        [pack({"type": "PeerLost", "kind": "scheduler", "index": 1, "cause": "??"})[0].replace(b"??", b"\xff\xfe")],
        [b"\x81\xa1x" + b"\x91" * 100_000 + b"\xc0"],  # nested deeper than any stack
        [b"\x82\xa4type\xabBatchStrOut\xa5texts\xdd\xff\xff\xff\xff"],  # claims four billion texts
        pack({"type": "PeerRestarted", "kind": "scheduler", "index": 1, "incarnation": 1, "suspects": b"1234567"}),
        pack({"type": "ProbeReply", "front": 0, "replica": 0, "uids": longs(1), "epochs": b"", "next": b""}),
    ],
    ids=range(21),
)
def test_what_is_no_message_is_a_decode_error_that_tells_no_content(frames: list[bytes]) -> None:
    with pytest.raises(DecodeError) as caught:
        Codec[ToFront](ToFront).decode(frames)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"uids": b"1234"}, "BatchTokenIDOut.uids"),
        ({"tokens": b"123"}, "BatchTokenIDOut.tokens"),
        ({"opened": (msgspec.structs.replace(OPENED, context=b"12345"),)}, "Opened.context"),
        ({"logprobs": (LOGPROBS, msgspec.structs.replace(LOGPROBS, chosen=b"1"))}, "Logprobs.chosen"),
        ({"hidden_states": (msgspec.structs.replace(HIDDEN_STATES, values=b"123"),)}, "HiddenStates.values"),
        ({"counts": b""}, "columns differ"),
    ],
)
def test_a_column_of_the_wrong_length_is_a_decode_error(change: dict[str, bytes], where: str) -> None:
    codec = Codec[ToDetokenizer](ToDetokenizer)
    frames = codec.encode(msgspec.structs.replace(TOKEN_IDS, **change))
    with pytest.raises(DecodeError, match=where):
        codec.decode(frames)


def test_an_optional_part_may_be_absent() -> None:
    codec = Codec[ToDetokenizer](ToDetokenizer)
    for info in (None, SERVER_INFO):
        reply = ControlReply(front=0, call=1, replica=0, info=info)
        assert codec.decode(codec.encode(reply)) == reply


def test_the_error_names_the_field() -> None:
    with pytest.raises(DecodeError, match=r"malformed at \$\.index"):
        Codec[ToFront](ToFront).decode(pack({"type": "PeerLost", "kind": "scheduler", "index": "x"}))
    lost = PeerLost(kind="scheduler", index=1)
    assert Codec[ToFront](ToFront).decode(pack({"type": "PeerLost", "kind": "scheduler", "index": 1})) == lost


def test_the_schema_hash_is_the_same_in_another_process() -> None:
    code = "from banyan.wire.codec import schema_hash; print(schema_hash())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert other == schema_hash()
    assert len(other) == 64


def test_the_schema_hash_covers_every_type_and_the_size_of_column_elements() -> None:
    schema = json.dumps(msgspec.json.schema_components(UNIONS))
    for kind in message_types():
        assert f'"{kind.__name__}"' in schema
    assert '"itemsize": 8' in schema
