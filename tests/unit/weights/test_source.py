import torch

from banyan.weights.source import MemorySource


def test_tensors_in_memory_are_given_by_name() -> None:
    tensors = {"a": torch.zeros(2, 3), "b": torch.ones(1)}
    source = MemorySource(tensors)
    assert source.shapes == {"a": (2, 3), "b": (1,)}
    assert [(name, tensor is tensors[name]) for name, tensor in source.read(["b", "a"])] == [("b", True), ("a", True)]
