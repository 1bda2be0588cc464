"""Tests of banyan.wire.output: columns that do not fit each other are found."""

import msgspec
import pytest

from banyan.wire.base import Message
from banyan.wire.output import BatchEmbeddingOut, BatchStrOut, BatchTokenIDOut
from tests.unit.wire.examples import (
    EXAMPLES,
    FINISHED,
    HIDDEN_STATES,
    LOGPROBS,
    STRINGS,
    TOKEN_IDS,
    floats,
    ints,
    longs,
)

EMBEDDING = next(example for example in EXAMPLES if isinstance(example, BatchEmbeddingOut))


@pytest.mark.parametrize("example", [TOKEN_IDS, STRINGS], ids=["tokens", "strings"])
@pytest.mark.parametrize(
    "change",
    [
        {"uids": longs(1)},
        {"epochs": ints(0)},
        {"positions": ints(0, 0, 0)},
        {"counts": b""},
        {"counts": ints(1, 3)},
        {"counts": ints(4, -1)},
        {"tokens": ints(1)},
        {"finished": (msgspec.structs.replace(FINISHED, row=2),)},
        {"finished": (msgspec.structs.replace(FINISHED, row=-1),)},
        {"logprobs": (msgspec.structs.replace(LOGPROBS, row=2**40),)},
        {"hidden_states": (msgspec.structs.replace(HIDDEN_STATES, row=2),)},
        {"hidden_states": (msgspec.structs.replace(HIDDEN_STATES, dim=3),)},
        {"hidden_states": (msgspec.structs.replace(HIDDEN_STATES, row=0),)},
    ],
)
def test_rows_that_differ_are_a_mismatch(example: Message, change: dict[str, bytes]) -> None:
    assert msgspec.structs.replace(example, **change).mismatch()


@pytest.mark.parametrize("change", [{"texts": ("a",)}, {"texts": ("a", "b", "c")}, {"text_offsets": ints(1)}])
def test_texts_that_differ_from_rows_are_a_mismatch(change: dict[str, bytes]) -> None:
    assert msgspec.structs.replace(STRINGS, **change).mismatch()


@pytest.mark.parametrize(
    "change",
    [
        {"dim": 3},
        {"vectors": floats(0.5)},
        {"epochs": ints(0)},
        {"finished": (msgspec.structs.replace(FINISHED, row=2),)},
    ],
)
def test_vectors_that_differ_from_rows_are_a_mismatch(change: dict[str, bytes]) -> None:
    assert msgspec.structs.replace(EMBEDDING, **change).mismatch()


def test_no_rows_fit() -> None:
    empty = BatchTokenIDOut(replica=0, uids=b"", epochs=b"", positions=b"", counts=b"", tokens=b"")
    assert empty.mismatch() == ""
    columns = msgspec.structs.asdict(empty)
    del columns["opened"]
    assert BatchStrOut(texts=(), text_offsets=b"", **columns).mismatch() == ""
    assert BatchEmbeddingOut(replica=0, uids=b"", epochs=b"", dim=8, vectors=b"", finished=()).mismatch() == ""


def test_a_row_may_bring_no_token() -> None:
    out = BatchTokenIDOut(
        replica=0, uids=longs(1), epochs=ints(0), positions=ints(0), counts=ints(0), tokens=b"", finished=()
    )
    assert out.mismatch() == ""
