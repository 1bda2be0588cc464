"""Place, Layer and Slot: where parameters are made, and what part of one a checkpoint tensor fills."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Place(NamedTuple):
    """Where and in which type a layer keeps its parameters."""

    device: torch.device
    dtype: torch.dtype

    def parameter(self, *shape: int) -> nn.Parameter:
        """Make a parameter whose content is not set yet."""
        return nn.Parameter(torch.empty(shape, device=self.device, dtype=self.dtype), requires_grad=False)

    def wide(self) -> "Place":
        """Return the same place for parameters that must be exact."""
        return Place(self.device, torch.float32)


class Parts(NamedTuple):
    """A parameter that is several checkpoint tensors behind one another."""

    dim: int
    sizes: tuple[int, ...]


class Layer(nn.Module):
    """A module that says which of its own parameters are made of parts.

    Layers call each other's `forward`, not the module: that is typed, and nobody hangs hooks on them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.parts: dict[str, Parts] = {}


@dataclass(frozen=True, slots=True)
class Slot:
    """A parameter to be filled."""

    tensor: Tensor
    parts: Parts | None

    def region(self, part: int | None, expert: int | None) -> Tensor:
        """Return what a checkpoint tensor fills: all of it, or a part, of all experts or of one."""
        region, shift = (self.tensor, 0) if expert is None else (self.tensor[expert], 1)
        if part is None:
            return region
        if self.parts is None:
            raise ValueError("the parameter has no parts")
        begin = sum(self.parts.sizes[:part])
        return region.narrow(self.parts.dim - shift, begin, self.parts.sizes[part])


def slots(model: nn.Module) -> Iterator[tuple[str, Slot]]:
    """List every parameter of a model once, with its path."""
    seen: set[int] = set()
    for path, module in model.named_modules():
        parts = module.parts if isinstance(module, Layer) else {}
        for name, tensor in module.named_parameters(recurse=False):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield f"{path}.{name}" if path else name, Slot(tensor, parts.get(name))
