"""MappedFile: a file in memory as raw bytes, read by the system when touched and shared by all who map it."""

import mmap
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from banyan.sources.errors import BadFileError


class MappedFile:
    """The bytes of a file. It stays mapped for as long as a tensor is left that shows some of it."""

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                # Private and writable: torch wants a buffer that it could write to. Nothing ever does.
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except (OSError, ValueError) as error:
            raise BadFileError(f"{path} cannot be mapped: {error}") from error
        self._bytes: Final = torch.frombuffer(data, dtype=torch.uint8)

    def view(self, offset: int, num_bytes: int, dtype: torch.dtype = torch.uint8) -> Tensor:
        """Show a range as numbers. It is copied only where it lies at an odd place for them."""
        raw = self._bytes[offset : offset + num_bytes]
        if offset % dtype.itemsize:
            raw = raw.clone()
        return raw.view(dtype)
