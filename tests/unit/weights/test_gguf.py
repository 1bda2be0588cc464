from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import dequantize, quantize

from banyan.weights.gguf import GGUFSource
from tests.unit.sources.files import llama_tensors, make_gguf


def test_plain_tensors_come_as_they_are(tmp_path: Path) -> None:
    source = GGUFSource(make_gguf(tmp_path / "model.gguf"))
    wanted = llama_tensors(np.random.default_rng(0))
    assert source.shapes == {name: array.shape for name, array in wanted.items()}
    names = list(reversed(wanted))
    read = list(source.read(names))
    assert [name for name, _ in read] == names
    assert all(np.array_equal(tensor.numpy(), wanted[name]) for name, tensor in read)


@pytest.mark.parametrize("kind", [GGMLQuantizationType.Q8_0, GGMLQuantizationType.Q4_0, GGMLQuantizationType.BF16])
def test_quantised_tensors_are_what_the_reference_makes_of_them(tmp_path: Path, kind: GGMLQuantizationType) -> None:
    packed = quantize(np.random.default_rng(0).standard_normal((3, 64), np.float32), kind)
    writer = GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_tensor("w", packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    [(_, full)] = GGUFSource(tmp_path / "model.gguf").read(["w"])
    [(_, half)] = GGUFSource(tmp_path / "model.gguf", torch.bfloat16).read(["w"])
    assert np.array_equal(full.numpy(), dequantize(packed, kind))
    assert torch.equal(half, full.bfloat16())


def test_reading_may_stop_early(tmp_path: Path) -> None:
    source = GGUFSource(make_gguf(tmp_path / "model.gguf"))
    reading = source.read(source.shapes)
    next(reading)
    del reading
