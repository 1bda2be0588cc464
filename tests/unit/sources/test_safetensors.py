from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from banyan.sources.errors import BadFileError
from banyan.sources.safetensors import read_safetensors, write_safetensors
from tests.unit.sources.files import Array


def test_reads_what_the_library_writes(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    arrays: dict[str, Array] = {
        "a": np.ones((2, 3), np.float32),
        "b": np.zeros(0, np.float16),
        "c": np.array(5, np.int64),
    }
    save_file(arrays, path, metadata={"format": "pt"})
    found = {tensor.name: tensor for tensor in read_safetensors(path)}
    assert {name: tensor.shape for name, tensor in found.items()} == {"a": (2, 3), "b": (0,), "c": ()}
    assert [found[name].dtype for name in "abc"] == ["F32", "F16", "I64"]
    raw = path.read_bytes()
    where = found["c"]
    assert raw[where.offset : where.offset + where.num_bytes] == arrays["c"].tobytes()


def test_the_library_reads_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    arrays: dict[str, Array] = {
        "long name": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "h": np.ones(3, np.float16),
    }
    write_safetensors(path, arrays)
    read = load_file(path)
    assert {name: array.tolist() for name, array in read.items()} == {n: a.tolist() for n, a in arrays.items()}
    assert read_safetensors(path)[0].offset % 8 == 0


def test_refuses_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="No such file"):
        read_safetensors(tmp_path / "none.safetensors")
