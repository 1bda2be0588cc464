"""The header of a safetensors file, read strictly; and the writing of such a file."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
import numpy as np
import numpy.typing as npt

from banyan.sources.errors import BadFileError

DTYPE_BYTES: Final = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "F8_E8M0": 1,
    "I16": 2,
    "U16": 2,
    "F16": 2,
    "BF16": 2,
    "I32": 4,
    "U32": 4,
    "F32": 4,
    "I64": 8,
    "U64": 8,
    "F64": 8,
}
_NUMPY: Final = {"float32": "F32", "float16": "F16"}  # what is written here
_MAX_HEADER_BYTES: Final = 100_000_000
_MAX_TENSORS: Final = 1_000_000
_MAX_DIMS: Final = 8
_MAX_NUMBERS: Final = 1 << 48
_LENGTH_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Where a tensor lies in the file, and in which form."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int  # from the start of the file
    num_bytes: int


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def read_safetensors(path: Path) -> tuple[StoredTensor, ...]:
    """Read and check the header of a file: the tensors in the order in which they lie."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            header = _header(path, file, size)
    except OSError as error:
        raise BadFileError(f"{path} cannot be read: {error.strerror}") from error
    entries = _entries(path, header)
    start = _LENGTH_BYTES + len(header)
    end = start + _checked_end(path, entries)
    if end != size:
        raise _bad(path, f"is cut short or has a tail: its tensors end at byte {end}, the file at {size}")
    return tuple(
        StoredTensor(name, entry.dtype, entry.shape, start + entry.data_offsets[0], _num_bytes(entry))
        for name, entry in entries
    )


def write_safetensors(path: Path, tensors: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays to a new file, in their order."""
    header: dict[str, _Entry] = {}
    end = 0
    for name, array in tensors.items():
        start, end = end, end + array.nbytes
        header[name] = _Entry(_NUMPY[array.dtype.name], array.shape, (start, end))
    text = msgspec.json.encode(header)
    text += b" " * (-len(text) % 8)  # so that the numbers lie at a multiple of eight
    with path.open("wb") as file:
        file.write(len(text).to_bytes(_LENGTH_BYTES, "little"))
        file.write(text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array).data)


def _header(path: Path, file: BinaryIO, size: int) -> bytes:
    length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    if size < _LENGTH_BYTES or length > size - _LENGTH_BYTES:
        raise _bad(path, f"is cut short or not safetensors: {size} bytes, with a header of {length}")
    if length > _MAX_HEADER_BYTES:
        raise _bad(path, f"has a header of {length} bytes; at most {_MAX_HEADER_BYTES} are allowed")
    header = file.read(length)
    if not header.startswith(b"{"):
        raise _bad(path, "is not safetensors: its header does not begin with {")
    if header.count(b'"data_offsets"') > _MAX_TENSORS:
        raise _bad(path, f"lists more than {_MAX_TENSORS} tensors")
    return header


def _entries(path: Path, header: bytes) -> list[tuple[str, _Entry]]:
    """Decode the header, as strictly as its types allow, in the order of the offsets."""
    try:
        raw = msgspec.json.decode(header, type=dict[str, msgspec.Raw])
        notes = raw.pop("__metadata__", None)
        if notes is not None:
            msgspec.json.decode(notes, type=dict[str, str])
        decoder = msgspec.json.Decoder(_Entry)
        entries = [(name, decoder.decode(entry)) for name, entry in raw.items()]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _bad(path, f"has a header that cannot be read: {error}") from None
    # Of two entries with one name, JSON keeps the last: the tensors would be fewer than the entries.
    said = header.count(b'"data_offsets"') - (0 if notes is None else bytes(notes).count(b'"data_offsets"'))
    if said != len(entries):
        raise _bad(path, "names a tensor twice")
    return sorted(entries, key=lambda item: item[1].data_offsets)


def _checked_end(path: Path, entries: list[tuple[str, _Entry]]) -> int:
    """Check that the tensors follow each other without gap or overlap; return how many bytes they fill."""
    end = 0
    for name, entry in entries:
        label = f"tensor {name!r:.80}"
        if entry.dtype not in DTYPE_BYTES:
            raise _bad(path, f"stores {label} as {entry.dtype!r:.20}; known are {', '.join(DTYPE_BYTES)}")
        if len(entry.shape) > _MAX_DIMS or min(entry.shape, default=0) < 0 or math.prod(entry.shape) > _MAX_NUMBERS:
            raise _bad(path, f"gives {label} a shape that cannot be: {list(entry.shape)!r:.80}")
        start, stop = entry.data_offsets
        if start != end:
            raise _bad(path, f"puts {label} at byte {start} instead of {end}: tensors must follow each other")
        if stop - start != _num_bytes(entry):
            raise _bad(path, f"gives {label} {stop - start} bytes, but its shape needs {_num_bytes(entry)}")
        end = stop
    return end


def _num_bytes(entry: _Entry) -> int:
    return math.prod(entry.shape) * DTYPE_BYTES[entry.dtype]


def _bad(path: Path, what: str) -> BadFileError:
    return BadFileError(f"{path} is damaged or not a model: it {what}")
