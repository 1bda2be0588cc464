"""Codec: a union of messages to frames and back, checked and capped in size; schema_hash() names the protocol."""

import hashlib
import re
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import inspect

from banyan.wire.base import Message
from banyan.wire.control import FromChild, LoadReport, ToDetokenizer, ToFront, ToScheduler

T = TypeVar("T", bound=Message)

# What travels as one unit. Today every message is one frame: its columns are bytes inside the struct.
Frames: TypeAlias = list[bytes]

MAX_MESSAGE_BYTES: Final = 64 << 20
UNIONS: Final = (ToScheduler, ToDetokenizer, ToFront, FromChild, LoadReport)

_WHERE: Final = re.compile(r" - at `(\$[^`]*)`$")


class EncodeError(ValueError):
    """A message that no receiver would take."""


class DecodeError(ValueError):
    """Frames that are no message. Its text names fields, never their content, so that it can be logged."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the columns of one struct type are."""

    columns: tuple[tuple[str, int], ...]  # field, bytes of an element
    parts: tuple[str, ...]  # fields with structs (one, a tuple of them, or None) that have columns themselves


class Codec(Generic[T]):
    """Encodes and decodes the messages of one union: `Codec[ToFront](ToFront)`."""

    def __init__(self, union: Any, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self.max_bytes = max_bytes
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(union)
        self._layouts: dict[type, _Layout] = {}
        _collect(inspect.type_info(union), self._layouts)

    def encode(self, message: T) -> Frames:
        """Turn a message into frames; a message over the cap raises EncodeError."""
        frame = self._encoder.encode(message)
        if len(frame) > self.max_bytes:
            raise EncodeError(f"{type(message).__name__} has {len(frame)} bytes; {self.max_bytes} are allowed")
        return [frame]

    def decode(self, frames: Frames) -> T:
        """Turn frames into a message, or raise DecodeError; no other exception leaves this method."""
        if len(frames) != 1:
            raise DecodeError(f"{len(frames)} frames instead of 1")
        frame = frames[0]
        if len(frame) > self.max_bytes:
            raise DecodeError(f"{len(frame)} bytes; {self.max_bytes} are allowed")
        try:
            message = self._decoder.decode(frame)
        except (ValueError, RecursionError, MemoryError) as error:
            # ValueError: msgspec's own errors and broken UTF-8. The others: nesting or lengths that lie.
            where = _WHERE.search(str(error))
            raise DecodeError(f"malformed at {where[1]}" if where else "malformed") from error
        self._check_columns(message)
        if flaw := message.mismatch():
            raise DecodeError(f"{type(message).__name__}: {flaw}")
        return message

    def _check_columns(self, part: object) -> None:
        layout = self._layouts.get(type(part))
        if layout is None:  # None in an optional field, or a struct without columns
            return
        for name, itemsize in layout.columns:
            if len(getattr(part, name)) % itemsize:
                raise DecodeError(f"{type(part).__name__}.{name} ends inside an element")
        for name in layout.parts:
            value = getattr(part, name)
            if isinstance(value, tuple):
                for item in value:
                    self._check_columns(item)
            else:
                self._check_columns(value)


def schema_hash() -> str:
    """Hash all unions: two processes with the same hash understand each other."""
    schema = msgspec.json.schema_components(UNIONS)
    return hashlib.sha256(msgspec.json.encode(schema, order="sorted")).hexdigest()


def _collect(info: inspect.Type, layouts: dict[type, _Layout]) -> bool:
    """Enter the layouts of all structs under a type; tell whether any column is there."""
    if isinstance(info, inspect.StructType):
        columns = tuple((field.name, size) for field in info.fields if (size := _itemsize(field.type)))
        parts = tuple(field.name for field in info.fields if _collect(field.type, layouts))
        if columns or parts:
            layouts[info.cls] = _Layout(columns, parts)
        return bool(columns or parts)
    if isinstance(info, inspect.UnionType):
        return sum(_collect(kind, layouts) for kind in info.types) > 0  # not any(): every kind must be entered
    if isinstance(info, inspect.VarTupleType):
        return _collect(info.item_type, layouts)
    if isinstance(info, inspect.Metadata):
        return _collect(info.type, layouts)
    return False


def _itemsize(info: inspect.Type) -> int:
    if isinstance(info, inspect.Metadata) and isinstance(info.type, inspect.BytesType):
        return int((info.extra_json_schema or {}).get("itemsize", 0))
    return 0
