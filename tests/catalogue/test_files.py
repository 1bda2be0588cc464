"""The files are what the catalogue says, and their numbers what the reference makes of them."""

from pathlib import Path

import gguf as reference
import numpy as np
import torch

from banyan.config.env import cache_dir
from banyan.sources.cache import hash_file
from banyan.sources.catalogue import CATALOGUE
from banyan.sources.gguf import read_gguf
from banyan.sources.inventory import show_model
from banyan.sources.local import LocalModel
from banyan.weights.open import open_weights

MAX_NUMBERS = 5_000_000  # larger tensors have no formats of their own


def test_every_file_has_its_hash(model: LocalModel) -> None:
    folder = model.path if model.kind == "hf" else model.path.parent
    entry = CATALOGUE[model.name]
    assert {file.name: hash_file(folder / file.name) for file in entry.files} == {
        file.name: file.sha256 for file in entry.files
    }


def test_it_can_be_described(model: LocalModel) -> None:
    details = show_model(cache_dir(), model.name)
    assert details.num_parameters > 10_000_000
    assert details.card.context_length >= 256
    assert details.model == model


def test_one_tensor_of_each_format_is_what_the_reference_makes_of_it(gguf: LocalModel) -> None:
    entries = {e.type.name: e for e in read_gguf(gguf.path).tensors if np.prod(e.shape) <= MAX_NUMBERS}
    source = open_weights(gguf)
    raw = np.memmap(gguf.path, np.uint8, "r")
    for name, tensor in source.read([entry.name for entry in entries.values()]):
        entry = next(entry for entry in entries.values() if entry.name == name)
        kind = reference.GGMLQuantizationType[entry.type.name]
        stored = raw[entry.offset : entry.offset + entry.num_bytes]
        shaped = (
            stored.view(np.float32).reshape(entry.shape)
            if entry.type.name == "F32"
            else stored.reshape(*entry.shape[:-1], -1)
        )
        assert np.array_equal(tensor.numpy(), reference.quants.dequantize(shaped, kind))


def test_reading_all_of_it_gives_finite_numbers(model: LocalModel) -> None:
    source = open_weights(model)
    names = [name for name, shape in source.shapes.items() if np.prod(shape) <= MAX_NUMBERS]
    assert all(bool(torch.isfinite(tensor).all()) for _, tensor in source.read(names))


def test_the_cache_is_where_it_should_be(model: LocalModel) -> None:
    assert Path(model.path).is_relative_to(cache_dir())
