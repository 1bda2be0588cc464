"""Names to parameters with strict accounting: every checkpoint tensor is used, every parameter filled, exactly once."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from torch import Tensor

from banyan.layers.parameter import Slot
from banyan.weights.errors import WeightError
from banyan.weights.source import WeightSource

Transform: TypeAlias = Callable[[Tensor], Tensor]


class Target(NamedTuple):
    """What a checkpoint tensor fills: a parameter, or a part of it, of all experts or of one."""

    parameter: str
    part: int | None = None
    expert: int | None = None
    transform: Transform | None = None

    def __str__(self) -> str:
        where = [f"expert {self.expert}"] * (self.expert is not None) + [f"part {self.part}"] * (self.part is not None)
        return f"{self.parameter} ({', '.join(where)})" if where else self.parameter


def assign(
    slots: Mapping[str, Slot],
    source: WeightSource,
    find: Callable[[str], Target | None],
    skip: Callable[[str], bool],
) -> None:
    """Fill the parameters of a model from a checkpoint, or raise WeightError.

    `find` knows what a tensor fills, by its name; `skip` says of what fills nothing here whether that is right: it
    may belong to another stage of the model, or carry nothing. The rest must come out even, and that is known from
    names and shapes: a checkpoint that does not fit is refused before any of it is read.
    """
    targets = _account(slots, source.shapes, find, skip)
    for name, tensor in source.read(targets):
        target = targets[name]
        value = tensor if target.transform is None else target.transform(tensor)
        region = slots[target.parameter].region(target.part, target.expert)
        if value.shape != region.shape:  # by a transform; copying would stretch it silently
            raise WeightError([], [], [_misfit(name, value.shape, target, region)])
        region.copy_(value)


def _account(
    slots: Mapping[str, Slot],
    shapes: Mapping[str, tuple[int, ...]],
    find: Callable[[str], Target | None],
    skip: Callable[[str], bool],
) -> dict[str, Target]:
    """Return what is to be read, and for what, or raise with all that does not come out even."""
    wanted: dict[str, Target] = {}
    unused: list[str] = []
    wrong: list[str] = []
    filled: dict[str, int] = dict.fromkeys(slots, 0)
    done: set[tuple[str, int | None, int | None]] = set()
    for name, shape in shapes.items():
        target = find(name)
        if target is None:
            if not skip(name):
                unused.append(name)
            continue
        if target[:3] in done:
            wrong.append(f"{name} fills {target} a second time")
            continue
        done.add(target[:3])
        region = slots[target.parameter].region(target.part, target.expert)
        if math.prod(shape) != region.numel() or (target.transform is None and shape != region.shape):
            wrong.append(_misfit(name, shape, target, region))
        filled[target.parameter] += region.numel()
        wanted[name] = target
    missing = [path for path, count in filled.items() if count < slots[path].tensor.numel()]
    if unused or missing or wrong:
        raise WeightError(unused, missing, wrong)
    return wanted


def _misfit(name: str, shape: Sequence[int], target: Target, region: Tensor) -> str:
    return f"{name} has shape {list(shape)}, {target} wants {list(region.shape)}"
