from pathlib import Path

import msgspec
import numpy as np
import pytest

from banyan.sources.errors import BadFileError
from banyan.sources.safetensors import write_safetensors
from banyan.sources.shards import read_shards
from tests.unit.sources.files import make_folder, make_shards


def names(folder: Path) -> list[tuple[str, str]]:
    return [(shard.path.name, tensor.name) for shard in read_shards(folder) for tensor in shard.tensors]


def test_one_file_needs_no_index(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    assert names(folder) == [("model.safetensors", "a.weight"), ("model.safetensors", "b")]
    (folder / "model.safetensors").rename(folder / "weights.fp16.safetensors")
    assert [file for file, _ in names(folder)] == ["weights.fp16.safetensors"] * 2


def test_several_files_agree_with_their_index(tmp_path: Path) -> None:
    assert names(make_shards(tmp_path)) == [("one.safetensors", "a"), ("two.safetensors", "b")]


def test_several_files_without_an_index_are_refused(tmp_path: Path) -> None:
    folder = make_shards(tmp_path)
    (folder / "model.safetensors.index.json").unlink()
    with pytest.raises(BadFileError, match="2 safetensors files but no"):
        read_shards(folder)


def test_an_index_that_disagrees_is_refused(tmp_path: Path) -> None:
    folder = make_shards(tmp_path)
    write_safetensors(folder / "two.safetensors", {"b": np.ones(3, np.float32), "more": np.ones(1, np.float32)})
    with pytest.raises(BadFileError, match="disagree about 1 tensors, for example about 'more'"):
        read_shards(folder)


@pytest.mark.parametrize("name", ["../one.safetensors", "/etc/passwd", "one.bin", "", "gone.safetensors"])
def test_an_index_names_only_files_beside_it(tmp_path: Path, name: str) -> None:
    folder = make_shards(tmp_path / "model")
    write_safetensors(tmp_path / "one.safetensors", {"a": np.zeros(2, np.float32)})
    index = {"weight_map": {"a": name, "b": "two.safetensors"}}
    (folder / "model.safetensors.index.json").write_bytes(msgspec.json.encode(index))
    with pytest.raises(BadFileError, match=r"not a safetensors file beside it|is missing"):
        read_shards(folder)


def test_pickles_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"anything")
    with pytest.raises(BadFileError, match=r"pytorch_model\.bin, a format that can run code"):
        read_shards(tmp_path)
    (tmp_path / "pytorch_model.bin").unlink()
    with pytest.raises(BadFileError, match="holds no safetensors file"):
        read_shards(tmp_path)
