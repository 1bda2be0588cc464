"""Hypothesis strategies for wire messages, derived from their types: a new message is covered by itself."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from msgspec import inspect

from banyan.wire.base import Message
from banyan.wire.control import ProbeReply
from banyan.wire.output import BatchEmbeddingOut, BatchStrOut, BatchTokenIDOut, Finished, HiddenStates, Logprobs
from banyan.wire.request import AbortReq, ProbeReq

Strategy = st.SearchStrategy[Any]
Fields = dict[str, Strategy]

FEW = 4  # parts of a tuple, rows of a batch: enough to mix, few enough to be quick
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


def messages(kind: type[Message]) -> st.SearchStrategy[Message]:
    """Any valid message of a type."""
    if kind in _BATCHES:
        return st.integers(0, FEW).flatmap(lambda rows: _build(kind, _BATCHES[kind](rows)))
    return _build(kind, {})


def column(values: Strategy, dtype: type, length: int) -> st.SearchStrategy[bytes]:
    """A column of so many elements."""
    return st.lists(values, min_size=length, max_size=length).map(lambda items: np.array(items, dtype).tobytes())


def _build(kind: type[Message], known: Fields) -> st.SearchStrategy[Message]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return st.builds(kind, **({field.name: _any(field.type) for field in info.fields} | known))


def _any(info: inspect.Type) -> Strategy:
    match info:
        case inspect.Metadata(type=inspect.BytesType(), extra_json_schema={"itemsize": int(size)}):
            return st.binary(max_size=FEW).map(lambda data: data * size)
        case inspect.Metadata(type=inner):
            return _any(inner)
        case inspect.VarTupleType():
            return st.lists(_any(info.item_type), max_size=FEW).map(tuple)
        case inspect.TupleType():
            return st.tuples(*(_any(item) for item in info.item_types))
        case inspect.UnionType():
            return st.one_of(*(_any(kind) for kind in info.types))
        case inspect.StructType():
            assert issubclass(info.cls, Message)
            return messages(info.cls)
    return _scalar(info)


def _scalar(info: inspect.Type) -> Strategy:
    match info:
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.IntType():
            low = -(2**63) if info.ge is None else info.ge
            return st.integers(low, _first(info.le, None if info.lt is None else info.lt - 1, 2**63 - 1))
        case inspect.FloatType():
            low, high = _first(info.ge, info.gt), info.le
            open_low = info.ge is None and info.gt is not None
            return st.floats(low, high, exclude_min=open_low, allow_nan=False, allow_infinity=False)
        case inspect.StrType():
            return st.text(min_size=info.min_length or 0, max_size=min(info.max_length or 8, 8))
        case inspect.LiteralType():
            return st.sampled_from(info.values)
    raise AssertionError(f"no strategy for {info}")


def _first(*bounds: Any) -> Any:
    return next((bound for bound in bounds if bound is not None), None)


# Messages whose columns must fit each other.


def _tokens(rows: int) -> Fields:
    """Columns of a batch in which row i has i tokens."""
    counts = np.arange(rows, dtype=np.int32)
    row = st.integers(0, max(rows - 1, 0))
    parts = FEW if rows else 0
    return {
        "uids": column(INT64, np.int64, rows),
        "epochs": column(INT32, np.int32, rows),
        "positions": column(INT32, np.int32, rows),
        "counts": st.just(counts.tobytes()),
        "tokens": column(INT32, np.int32, int(counts.sum())),
        "finished": st.lists(_build(Finished, {"row": row}), max_size=parts).map(tuple),
        "logprobs": st.lists(_build(Logprobs, {"row": row}), max_size=parts).map(tuple),
        "hidden_states": st.lists(row.flatmap(_hidden_states), max_size=parts).map(tuple),
    }


def _hidden_states(row: int) -> st.SearchStrategy[Message]:
    """States of a row that has as many tokens as its number."""
    dim = 2
    values = column(st.floats(width=32), np.float32, row * dim)
    return _build(HiddenStates, {"row": st.just(row), "dim": st.just(dim), "values": values})


def _strings(rows: int) -> Fields:
    return _tokens(rows) | {
        "texts": st.lists(st.text(max_size=8), min_size=rows, max_size=rows).map(tuple),
        "text_offsets": column(INT32, np.int32, rows),
    }


def _vectors(rows: int) -> Fields:
    dim = 3
    return {name: _tokens(rows)[name] for name in ("uids", "epochs", "finished")} | {
        "dim": st.just(dim),
        "vectors": column(st.floats(width=32, allow_nan=False), np.float32, rows * dim),
    }


def _pairs(*names: str) -> Callable[[int], Fields]:
    """Make columns of one int32 per uid."""
    return lambda rows: (
        {name: column(INT32, np.int32, rows) for name in names} | {"uids": column(INT64, np.int64, rows)}
    )


_BATCHES: dict[type[Message], Callable[[int], Fields]] = {
    AbortReq: _pairs("below"),
    ProbeReq: _pairs("epochs"),
    ProbeReply: _pairs("epochs", "next"),
    BatchTokenIDOut: _tokens,
    BatchStrOut: _strings,
    BatchEmbeddingOut: _vectors,
}
