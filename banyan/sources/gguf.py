"""The header of a GGUF file, read strictly: every count, length, type and offset is checked before it is used."""

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from banyan.config.metadata import Metadata, Numbers, Value
from banyan.sources.errors import BadFileError
from banyan.sources.ggml import GGML_TYPES, GGMLType

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_STRING: Final = 8
_ARRAY: Final = 9
_BOOL: Final = 7
# By the number that stands in a file: little-endian, as numpy writes it.
_SCALARS: Final[dict[int, np.dtype[Any]]] = {
    0: np.dtype("<u1"),
    1: np.dtype("<i1"),
    2: np.dtype("<u2"),
    3: np.dtype("<i2"),
    4: np.dtype("<u4"),
    5: np.dtype("<i4"),
    6: np.dtype("<f4"),
    _BOOL: np.dtype("<u1"),
    10: np.dtype("<u8"),
    11: np.dtype("<i8"),
    12: np.dtype("<f8"),
}
_MAX_HEADER_BYTES: Final = 100_000_000
_MAX_STRINGS: Final = 4_000_000  # in one list; the largest vocabularies have a quarter of a million
_MAX_TENSORS: Final = 1_000_000
_MAX_DIMS: Final = 4
_MAX_NUMBERS: Final = 1 << 48  # in one tensor
_MAX_ALIGNMENT: Final = 1 << 16
_PAIR_BYTES: Final = 13  # the least that a key with its value takes: a length, a type, one byte
_TENSOR_BYTES: Final = 32  # the least that a tensor's entry takes
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Where a tensor lies in the file, and in which form."""

    name: str
    type: GGMLType
    shape: tuple[int, ...]  # slowest dimension first
    offset: int  # from the start of the file
    num_bytes: int


@dataclass(frozen=True, slots=True)
class GGUFHeader:
    """All that a file says before its numbers begin."""

    metadata: Metadata
    tensors: tuple[TensorEntry, ...]


def read_gguf(path: Path) -> GGUFHeader:
    """Read and check the header of a file. Costs no more memory than the header is long."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if file.read(4) != _MAGIC:
                raise BadFileError(f"{path} is not a GGUF file: it does not begin with GGUF")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _Parser(path, data, size).header()
    except OSError as error:
        raise BadFileError(f"{path} cannot be read: {error.strerror}") from error


class _Parser:
    """A place in a file that moves forward. Whatever would go beyond the end is refused."""

    def __init__(self, path: Path, data: mmap.mmap, size: int) -> None:
        self._path = path
        self._data = data
        self._size = size
        self._end = min(size, _MAX_HEADER_BYTES)
        self._at = len(_MAGIC)

    def header(self) -> GGUFHeader:
        version = self._u32()
        if version not in _VERSIONS:
            raise self._bad(f"has GGUF version {version}; known are {', '.join(map(str, _VERSIONS))}")
        num_tensors = self._count("tensors", _TENSOR_BYTES, _MAX_TENSORS)
        num_pairs = self._count("metadata entries", _PAIR_BYTES, _MAX_TENSORS)
        entries: dict[str, Value] = {}
        for _ in range(num_pairs):
            key = self._string()
            if key in entries:
                raise self._bad(f"says {key!r:.80} twice")
            entries[key] = self._value(self._u32())
        metadata = Metadata(entries)
        return GGUFHeader(metadata, self._tensors(num_tensors, self._alignment(metadata)))

    def _tensors(self, count: int, alignment: int) -> tuple[TensorEntry, ...]:
        raw = [self._tensor(alignment) for _ in range(count)]
        if len({entry.name for entry in raw}) != count:
            raise self._bad("names a tensor twice")
        start = -(-self._at // alignment) * alignment
        found = []
        expected = 0
        for entry in raw:
            # Tensors follow each other without gaps, so none can lie over another.
            if entry.offset != expected:
                raise self._bad(f"puts tensor {entry.name!r:.80} at offset {entry.offset} instead of {expected}")
            expected += -(-entry.num_bytes // alignment) * alignment
            if start + entry.offset + entry.num_bytes > self._size:
                raise self._bad(
                    f"is cut short: tensor {entry.name!r:.80} ends at byte {start + entry.offset + entry.num_bytes}, "
                    f"the file at {self._size}"
                )
            found.append(TensorEntry(entry.name, entry.type, entry.shape, start + entry.offset, entry.num_bytes))
        return tuple(found)

    def _tensor(self, alignment: int) -> TensorEntry:
        name = self._string()
        num_dims = self._u32()
        if not 1 <= num_dims <= _MAX_DIMS:
            raise self._bad(f"gives tensor {name!r:.80} {num_dims} dimensions")
        shape = tuple(self._u64() for _ in range(num_dims))[::-1]
        number = self._u32()
        kind = GGML_TYPES.get(number)
        if kind is None:
            known = ", ".join(known.name for known in GGML_TYPES.values())
            raise self._bad(f"stores tensor {name!r:.80} in GGML type {number}, which is not known; known are {known}")
        total = math.prod(shape)
        if not 0 < total < _MAX_NUMBERS:
            raise self._bad(f"gives tensor {name!r:.80} the shape {list(shape)}")
        if shape[-1] % kind.block_numbers:
            raise self._bad(f"cuts rows of {shape[-1]} in tensor {name!r:.80} into blocks of {kind.block_numbers}")
        offset = self._u64()
        if offset % alignment:
            raise self._bad(f"puts tensor {name!r:.80} at offset {offset}, which is no multiple of {alignment}")
        return TensorEntry(name, kind, shape, offset, total // kind.block_numbers * kind.block_bytes)

    def _alignment(self, metadata: Metadata) -> int:
        alignment = metadata.whole("general.alignment", 32)
        if alignment % 8 or not 8 <= alignment <= _MAX_ALIGNMENT:
            raise self._bad(f"has an alignment of {alignment}")
        return alignment

    def _value(self, kind: int) -> Value:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._list()
        dtype = _SCALARS.get(kind)
        if dtype is None:
            raise self._bad(f"has a metadata value of type {kind}, which is not known")
        value = np.frombuffer(self._take(dtype.itemsize), dtype)[0].item()
        if kind != _BOOL:
            return float(value) if isinstance(value, float) else int(value)
        if value > 1:
            raise self._bad(f"has a truth value of {value}")
        return bool(value)

    def _list(self) -> Value:
        kind = self._u32()
        if kind == _STRING:
            return self._strings(self._count("strings in a list", 8, _MAX_STRINGS))
        dtype = _SCALARS.get(kind)
        if dtype is None:
            raise self._bad(f"has a list of values of type {kind}, which is not known")
        count = self._count("numbers in a list", dtype.itemsize, _MAX_HEADER_BYTES)
        numbers: Numbers = np.frombuffer(self._take(count * dtype.itemsize), dtype)
        return numbers

    def _strings(self, count: int) -> list[str]:
        """Read many strings. Vocabularies are long, so the loop calls nothing of ours."""
        data, at, end, length_at = self._data, self._at, self._end, _U64.unpack_from
        found = []
        try:
            for _ in range(count):
                stop = at + 8 + length_at(data, at)[0]
                if stop > end:
                    raise self._short()
                found.append(data[at + 8 : stop].decode())
                at = stop
        except struct.error:
            raise self._short() from None
        except UnicodeDecodeError:
            raise self._bad("holds a string that is not UTF-8") from None
        self._at = at
        return found

    def _string(self) -> str:
        return self._strings(1)[0]

    def _count(self, what: str, least_bytes: int, limit: int) -> int:
        count = self._u64()
        # Checked before anything is made: so many things of that size must fit into what is left.
        if count > limit or count * least_bytes > self._end - self._at:
            raise self._bad(f"claims {count} {what}, more than it can hold")
        return count

    def _u32(self) -> int:
        return int(_U32.unpack(self._take(4))[0])

    def _u64(self) -> int:
        return int(_U64.unpack(self._take(8))[0])

    def _take(self, num_bytes: int) -> bytes:
        start, self._at = self._at, self._at + num_bytes
        if self._at > self._end:
            raise self._short()
        return self._data[start : self._at]

    def _short(self) -> BadFileError:
        if self._end < self._size:
            return self._bad(f"has a header longer than {_MAX_HEADER_BYTES} bytes")
        return self._bad(f"is cut short: its header goes beyond its {self._size} bytes")

    def _bad(self, what: str) -> BadFileError:
        return BadFileError(f"{self._path} is damaged or not a model: it {what}")
