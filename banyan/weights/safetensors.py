"""SafetensorsSource: a checkpoint in one or several safetensors files."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from banyan.sources.safetensors import StoredTensor
from banyan.sources.shards import Shard
from banyan.weights.mapped import MappedFile

_DTYPES: Final = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E8M0": torch.float8_e8m0fnu,
    "I16": torch.int16,
    "U16": torch.uint16,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I32": torch.int32,
    "U32": torch.uint32,
    "F32": torch.float32,
    "I64": torch.int64,
    "U64": torch.uint64,
    "F64": torch.float64,
}


class SafetensorsSource:
    """Tensors as they lie in the files: reading one is looking at it."""

    def __init__(self, shards: Iterable[Shard]) -> None:
        self._where: dict[str, tuple[Path, StoredTensor]] = {
            tensor.name: (shard.path, tensor) for shard in shards for tensor in shard.tensors
        }
        self._files: dict[Path, MappedFile] = {}
        self.shapes: Mapping[str, tuple[int, ...]] = {name: tensor.shape for name, (_, tensor) in self._where.items()}

    def read(self, names: Iterable[str]) -> Iterator[tuple[str, Tensor]]:
        """Show some tensors."""
        for name in names:
            path, stored = self._where[name]
            file = self._files.get(path)
            if file is None:
                file = self._files[path] = MappedFile(path)
            yield name, file.view(stored.offset, stored.num_bytes, _DTYPES[stored.dtype]).view(stored.shape)
