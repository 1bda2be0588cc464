import math
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader, GGUFValueType, GGUFWriter

from banyan.sources.errors import BadFileError
from banyan.sources.gguf import read_gguf
from tests.unit.sources.files import make_gguf


def test_reads_what_the_reference_reads(tmp_path: Path) -> None:
    path = make_gguf(tmp_path / "model.gguf")
    header, reference = read_gguf(path), GGUFReader(path)
    assert {entry.name: (entry.offset, entry.num_bytes, entry.type.name) for entry in header.tensors} == {
        tensor.name: (tensor.data_offset, tensor.n_bytes, tensor.tensor_type.name) for tensor in reference.tensors
    }
    said = {key: field.contents() for key, field in reference.fields.items() if not key.startswith("GGUF.")}
    assert set(header.metadata) == set(said)
    assert header.metadata.words("tokenizer.ggml.tokens") == said["tokenizer.ggml.tokens"]
    assert header.metadata.numbers("tokenizer.ggml.scores").tolist() == said["tokenizer.ggml.scores"]
    assert header.metadata.whole("llama.block_count") == said["llama.block_count"]


def test_reads_every_type_of_value(tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "model.gguf", "llama")
    numbers = {
        GGUFValueType.UINT8: 200,
        GGUFValueType.INT8: -100,
        GGUFValueType.UINT16: 60_000,
        GGUFValueType.INT16: -30_000,
        GGUFValueType.UINT32: 4_000_000_000,
        GGUFValueType.INT32: -2_000_000_000,
        GGUFValueType.UINT64: 2**63,
        GGUFValueType.INT64: -(2**62),
        GGUFValueType.FLOAT32: 0.5,
        GGUFValueType.FLOAT64: math.pi,
    }
    for kind, value in numbers.items():
        writer.add_key_value(f"is.{kind.name}", value, kind)
    writer.add_bool("is.bool", True)
    writer.add_array("is.flags", [True, False])
    writer.add_tensor("t", np.zeros((3, 5), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    header = read_gguf(tmp_path / "model.gguf")
    for kind, value in numbers.items():
        key = f"is.{kind.name}"
        if isinstance(value, int) and value >= 0:
            assert header.metadata.whole(key) == value
        else:
            assert header.metadata.number(key) == value
    assert header.metadata.flag("is.bool", False)
    assert header.metadata.numbers("is.flags").tolist() == [1, 0]
    assert [(entry.name, entry.shape, entry.num_bytes) for entry in header.tensors] == [("t", (3, 5), 30)]


def test_refuses_what_is_no_gguf(tmp_path: Path) -> None:
    for content in (b"", b"GGUF", b"PK\x03\x04" + bytes(100)):
        path = tmp_path / "model.gguf"
        path.write_bytes(content)
        with pytest.raises(BadFileError, match=r"GGUF|cut short"):
            read_gguf(path)
    with pytest.raises(BadFileError, match="No such file"):
        read_gguf(tmp_path / "none.gguf")


def test_says_where_a_cut_file_should_have_ended(tmp_path: Path) -> None:
    path = make_gguf(tmp_path / "model.gguf")
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(size - 4096)
    with pytest.raises(BadFileError, match=f"ends at byte {size}, the file at {size - 4096}"):
        read_gguf(path)
