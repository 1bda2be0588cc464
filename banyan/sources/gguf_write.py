"""Writing a GGUF file of plain 32-bit numbers, for models that come in a form of their own."""

import struct
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from banyan.config.metadata import Value

Floats = npt.NDArray[np.float32]

_ALIGNMENT: Final = 32
_F32: Final = 0


def write_gguf(path: Path, metadata: Mapping[str, Value], tensors: Mapping[str, Floats]) -> None:
    """Write a new file. Whole numbers are written with 32 bits, others with 32-bit precision."""
    head = BytesIO()
    head.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)))
    for key, value in metadata.items():
        head.write(_string(key) + _value(value))
    offset = 0
    for name, array in tensors.items():
        head.write(_string(name) + struct.pack(f"<I{array.ndim}Q", array.ndim, *reversed(array.shape)))
        head.write(struct.pack("<IQ", _F32, offset))
        offset += _padded(array.nbytes)
    with path.open("wb") as file:
        file.write(head.getvalue() + bytes(_padded(head.tell()) - head.tell()))
        for array in tensors.values():
            file.write(np.ascontiguousarray(array, dtype="<f4").data)
            file.write(bytes(_padded(array.nbytes) - array.nbytes))


def _padded(num_bytes: int) -> int:
    return -(-num_bytes // _ALIGNMENT) * _ALIGNMENT


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(value: Value) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", 7, value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case str():
            return struct.pack("<I", 8) + _string(value)
        case list():
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_string, value))
        case _:
            kind, form = (6, "<f4") if value.dtype.kind == "f" else (5, "<i4")
            return struct.pack("<IIQ", 9, kind, len(value)) + value.astype(form).tobytes()
