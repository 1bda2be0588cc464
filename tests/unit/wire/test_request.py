"""Tests of banyan.wire.request: the bounds that hold wherever a request is decoded."""

import msgspec
import pytest

from banyan.wire.control import ToScheduler
from banyan.wire.request import AbortReq, ProbeReq, TokenizedGenerateReqInput
from tests.unit.wire.examples import GENERATE, ints, longs


def decode(changes: dict[str, object]) -> TokenizedGenerateReqInput:
    """Change the example on the wire and decode it; a dotted name reaches into a part."""
    tree = msgspec.msgpack.decode(msgspec.msgpack.encode(GENERATE))
    for path, value in changes.items():
        *parts, name = path.split(".")
        place = tree
        for part in parts:
            place = place[part]
        place[name] = value
    return msgspec.msgpack.decode(msgspec.msgpack.encode(tree), type=TokenizedGenerateReqInput)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("uid", -1),
        ("uid", 2**63),
        ("epoch", -1),
        ("epoch", 2**31),
        ("seed", 2**63),
        ("rid", "r" * 257),
        ("salt", "s" * 129),
        ("priority", 1001),
        ("queue_timeout_s", 0.0),
        ("tokens", [1, 2, 3]),
        ("sampling.max_new_tokens", -1),
        ("sampling.temperature", -0.1),
        ("sampling.top_p", 0.0),
        ("sampling.top_k", 2**31),
        ("sampling.n", 17),
        ("sampling.stop", ["x"] * 17),
        ("sampling.stop", [""]),
        ("sampling.stop", ["x" * 257]),
        ("sampling.stop_token_ids", [2**31]),
        ("sampling.stop_token_ids", [-1]),
        ("sampling.stop_regex", ["x"] * 5),
        ("sampling.logit_bias", [[1, 0.5]] * 301),
        ("sampling.sampling_seed", -1),
        ("sampling.grammar.kind", "prose"),
        ("logprobs.top", 21),
        ("session.id", ""),
        ("surprise", 1),
        ("sampling.surprise", 1),
    ],
)
def test_a_value_out_of_bounds_does_not_decode(path: str, value: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode({path: value})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("uid", 2**63 - 1),
        ("epoch", 2**31 - 1),
        ("rid", "r" * 256),
        ("tokens", b""),
        ("sampling.temperature", 0),
        ("sampling.stop", []),
        ("sampling.n", 16),
    ],
)
def test_a_value_at_its_bound_decodes(path: str, value: object) -> None:
    assert decode({path: value}) != GENERATE


def test_a_request_decodes_from_the_union() -> None:
    frame = msgspec.msgpack.encode(GENERATE)
    assert msgspec.msgpack.Decoder(ToScheduler).decode(frame) == GENERATE


def test_rows_that_differ_are_a_mismatch() -> None:
    assert AbortReq(uids=longs(1, 2), below=ints(1)).mismatch()
    assert not AbortReq(uids=longs(1, 2), below=ints(1, 1)).mismatch()
    assert ProbeReq(front=0, uids=longs(1), epochs=b"").mismatch()
    assert not ProbeReq(front=0, uids=b"", epochs=b"").mismatch()
