"""WeightSource: the tensors of a checkpoint by name, known before they are read."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from torch import Tensor


class WeightSource(Protocol):
    """A checkpoint. Opening one reads headers only."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The name and shape of each tensor."""

    def read(self, names: Iterable[str]) -> Iterator[tuple[str, Tensor]]:
        """Read some tensors, one after the other. What is given must not be written to."""


class MemorySource:
    """Tensors that are there already."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors
        self.shapes: Mapping[str, tuple[int, ...]] = {name: tuple(tensor.shape) for name, tensor in tensors.items()}

    def read(self, names: Iterable[str]) -> Iterator[tuple[str, Tensor]]:
        """Give some of them."""
        for name in names:
            yield name, self._tensors[name]
