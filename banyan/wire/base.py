"""Message: the base of everything that crosses a process border, and the column types it is made of."""

from typing import Annotated, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

I32: TypeAlias = npt.NDArray[np.int32]
I64: TypeAlias = npt.NDArray[np.int64]
F32: TypeAlias = npt.NDArray[np.float32]
Bool: TypeAlias = npt.NDArray[np.bool_]

# Columns travel as raw little-endian bytes: no per-element objects. The item size is part of the schema, so the
# codec can refuse a column that ends inside an element.
Int32Column: TypeAlias = Annotated[bytes, Meta(extra_json_schema={"itemsize": 4})]
Int64Column: TypeAlias = Annotated[bytes, Meta(extra_json_schema={"itemsize": 8})]
Float32Column: TypeAlias = Annotated[bytes, Meta(extra_json_schema={"itemsize": 4})]

# Bounds of what is kept in int64 and int32 columns: a number beyond them must not get past the decoder.
Uid: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Epoch: TypeAlias = Annotated[int, Meta(ge=0, lt=2**31)]


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True, gc=False):
    """A frozen, tagged struct. No `Any`, no open dictionaries."""

    def mismatch(self) -> str:
        """Say which columns do not fit each other, in words; empty when all do. The codec asks after each decode."""
        return ""


def i32(column: Int32Column) -> I32:
    """View an int32 column."""
    return np.frombuffer(column, dtype=np.int32)


def i64(column: Int64Column) -> I64:
    """View an int64 column."""
    return np.frombuffer(column, dtype=np.int64)


def f32(column: Float32Column) -> F32:
    """View a float32 column."""
    return np.frombuffer(column, dtype=np.float32)


FRONT_SHIFT = 40  # a uid is (front << 40) | sequence: who owns a request can be read off its number


def make_uid(front: int, sequence: int) -> int:
    """Number a request: unique over all fronts and for the life of the server."""
    return (front << FRONT_SHIFT) | sequence


def front_of(uid: int) -> int:
    """Tell which front process owns a request."""
    return uid >> FRONT_SHIFT
