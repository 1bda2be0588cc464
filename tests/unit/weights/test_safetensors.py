from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from banyan.sources.shards import read_shards
from banyan.weights.safetensors import SafetensorsSource
from tests.unit.sources.files import make_folder, make_shards

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_equal_to_what_the_library_wrote(tmp_path: Path, dtype: torch.dtype) -> None:
    written = {
        "odd": torch.ones(3, dtype=torch.uint8),
        "x": torch.arange(6).reshape(2, 3).to(dtype),
        "empty": torch.zeros(0, 4).to(dtype),
        "scalar": torch.tensor(1).to(dtype),
    }
    save_file(written, tmp_path / "model.safetensors")
    source = SafetensorsSource(read_shards(tmp_path))
    assert source.shapes == {name: tuple(tensor.shape) for name, tensor in written.items()}
    for name, tensor in source.read(written):
        assert tensor.dtype == written[name].dtype
        assert tensor.shape == written[name].shape
        assert tensor.to(torch.float64).tolist() == written[name].to(torch.float64).tolist()


def test_shards_are_one_checkpoint(tmp_path: Path) -> None:
    source = SafetensorsSource(read_shards(make_shards(tmp_path)))
    assert {name: tensor.tolist() for name, tensor in source.read(["b", "a"])} == {"a": [0, 0], "b": [1, 1, 1]}


def test_a_tensor_read_again_is_the_same_memory(tmp_path: Path) -> None:
    source = SafetensorsSource(read_shards(make_folder(tmp_path)))
    [(_, first)], [(_, second)] = source.read(["a.weight"]), source.read(["a.weight"])
    assert first.data_ptr() == second.data_ptr()
