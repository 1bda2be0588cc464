"""GGUFSource: a checkpoint in a GGUF file, dequantised while it is read."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from banyan.sources.gguf import read_gguf
from banyan.weights.dequantize import dequantize
from banyan.weights.mapped import MappedFile

_THREADS: Final = 4  # tensors that are made ready ahead, which bounds the memory that they take


class GGUFSource:
    """Tensors of the wanted type, made from the blocks in the file."""

    def __init__(self, path: Path, dtype: torch.dtype = torch.float32) -> None:
        self._entries = {entry.name: entry for entry in read_gguf(path).tensors}
        self._file = MappedFile(path)
        self._dtype = dtype
        self.shapes: Mapping[str, tuple[int, ...]] = {name: entry.shape for name, entry in self._entries.items()}

    def read(self, names: Iterable[str]) -> Iterator[tuple[str, Tensor]]:
        """Dequantise some tensors, a few at once, and give them in their order."""
        with ThreadPoolExecutor(_THREADS, "dequantize") as pool:
            ahead: deque[tuple[str, Future[Tensor]]] = deque()
            for name in names:
                ahead.append((name, pool.submit(self._tensor, name)))
                if len(ahead) > _THREADS:
                    first, ready = ahead.popleft()
                    yield first, ready.result()
            for rest, ready in ahead:
                yield rest, ready.result()

    def _tensor(self, name: str) -> Tensor:
        entry = self._entries[name]
        return dequantize(self._file.view(entry.offset, entry.num_bytes), entry.type, entry.shape, self._dtype)
