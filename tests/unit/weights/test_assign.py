from collections.abc import Iterable, Iterator, Mapping

import pytest
import torch
from torch import Tensor

from banyan.layers.parameter import Parts, Slot
from banyan.weights.assign import Target, assign
from banyan.weights.errors import WeightError
from banyan.weights.source import MemorySource


def slots() -> dict[str, Slot]:
    return {
        "qkv": Slot(torch.full((6, 2), torch.nan), Parts(0, (4, 1, 1))),
        "experts": Slot(torch.full((2, 4, 2), torch.nan), Parts(1, (2, 2))),
        "norm": Slot(torch.full((3,), torch.nan), None),
    }


TARGETS = {
    "q": Target("qkv", 0),
    "k": Target("qkv", 1),
    "v": Target("qkv", 2),
    **{f"{e}.{part}": Target("experts", number, e) for e in range(2) for number, part in enumerate(("gate", "up"))},
    "norm": Target("norm", transform=lambda tensor: tensor.view(3) - 1),
}


def tensors() -> dict[str, Tensor]:
    return {
        "q": torch.full((4, 2), 1.0),
        "k": torch.full((1, 2), 2.0),
        "v": torch.full((1, 2), 3.0),
        "0.gate": torch.full((2, 2), 4.0),
        "0.up": torch.full((2, 2), 5.0),
        "1.gate": torch.full((2, 2), 6.0),
        "1.up": torch.full((2, 2), 7.0),
        "norm": torch.full((1, 3), 9.0),
    }


def nowhere(name: str) -> bool:
    del name
    return False


class Unread:
    """A checkpoint that must not be read."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.shapes: Mapping[str, tuple[int, ...]] = {name: tuple(tensor.shape) for name, tensor in tensors.items()}

    def read(self, names: Iterable[str]) -> Iterator[tuple[str, Tensor]]:
        raise AssertionError(f"{list(names)} were read")


def refused(changed: Mapping[str, Tensor], targets: Mapping[str, Target] = TARGETS) -> WeightError:
    with pytest.raises(WeightError) as caught:
        assign(slots(), Unread(changed), targets.get, nowhere)
    return caught.value


def test_every_part_gets_its_tensor() -> None:
    filled = slots()
    assign(filled, MemorySource(tensors()), TARGETS.get, nowhere)
    assert filled["qkv"].tensor[:, 0].tolist() == [1, 1, 1, 1, 2, 3]
    assert filled["experts"].tensor[:, :, 0].tolist() == [[4, 4, 5, 5], [6, 6, 7, 7]]
    assert filled["norm"].tensor.tolist() == [8, 8, 8]


def test_what_is_missing_and_what_is_too_much_are_told_together() -> None:
    changed = tensors()
    del changed["k"]
    error = refused(changed | {"bias": torch.zeros(1)})
    assert (error.unused, error.missing, error.wrong) == (["bias"], ["qkv"], [])


def test_a_missing_expert_is_missed() -> None:
    changed = tensors()
    del changed["1.up"]
    assert refused(changed).missing == ["experts"]


def test_a_wrong_shape_is_found_before_anything_is_read() -> None:
    error = refused(tensors() | {"v": torch.zeros(2, 1), "norm": torch.zeros(4)})
    assert error.wrong == [
        "v has shape [2, 1], qkv (part 2) wants [1, 2]",
        "norm has shape [4], norm wants [3]",
    ]


def test_a_transform_must_give_the_right_shape() -> None:
    filled = {"norm": Slot(torch.empty(3), None)}
    wrong = {"norm": Target("norm", transform=lambda tensor: tensor[:1])}
    with pytest.raises(WeightError, match=r"norm has shape \[1\], norm wants \[3\]"):
        assign(filled, MemorySource({"norm": torch.ones(3)}), wrong.get, nowhere)


def test_nothing_is_filled_twice() -> None:
    error = refused(tensors() | {"again": torch.zeros(2, 2)}, {**TARGETS, "again": TARGETS["1.up"]})
    assert error.wrong == ["again fills experts (expert 1, part 1) a second time"]


def test_what_belongs_elsewhere_or_says_nothing_is_passed_over() -> None:
    more = {"layers.9.q": torch.zeros(1), "rope.inv_freq": torch.zeros(1)}
    source = MemorySource(tensors() | more)
    assign(slots(), source, TARGETS.get, more.__contains__)


def test_other_types_are_converted() -> None:
    filled = {"norm": Slot(torch.empty(3, dtype=torch.bfloat16), None)}
    source = MemorySource({"norm": torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float16)})
    assign(filled, source, TARGETS.get, nowhere)
    assert filled["norm"].tensor.tolist() == [0, 1, 2]
