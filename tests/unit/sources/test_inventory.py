from pathlib import Path

import pytest

from banyan.sources.cache import Manifest, ModelCache, hash_file, record
from banyan.sources.errors import SourceError
from banyan.sources.inventory import list_models, remove_model, show_model
from tests.unit.sources.files import make_folder, make_gguf


def put(cache: Path, name: str) -> None:
    def make(folder: Path) -> Manifest:
        path = make_gguf(folder / "model.gguf")
        files = {"model.gguf": record(path, hash_file(path))}
        return Manifest(name=name, kind="gguf", licence="MIT", source="here", files=files)

    ModelCache(cache).add(name, make)


def test_models_are_listed_shown_and_removed(tmp_path: Path) -> None:
    assert list_models(tmp_path) == []
    put(tmp_path, "pypi:b")
    put(tmp_path, "pypi:a==1.0")
    listed = list_models(tmp_path)
    assert [(model.name, model.kind, model.licence, model.source) for model in listed] == [
        ("pypi:a==1.0", "gguf", "MIT", "here"),
        ("pypi:b", "gguf", "MIT", "here"),
    ]
    assert listed[0].num_bytes == (listed[0].path / "model.gguf").stat().st_size
    details = show_model(tmp_path, "pypi:b")
    assert (details.card.context_length, details.formats) == (128, {"F32": 20})
    assert details.num_parameters == 262 * 32 + 32 + 2 * (2 * 32 + 4 * 32 * 32 + 3 * 32 * 64)
    remove_model(tmp_path, "pypi:b")
    assert [model.name for model in list_models(tmp_path)] == ["pypi:a==1.0"]


def test_a_folder_and_the_oracle_can_be_shown(tmp_path: Path) -> None:
    details = show_model(tmp_path, str(make_folder(tmp_path / "m")))
    assert (details.num_parameters, details.formats) == (10, {"F32": 1, "F16": 1})
    assert show_model(tmp_path, "oracle").num_parameters == 0


def test_what_is_not_there_cannot_be_removed(tmp_path: Path) -> None:
    put(tmp_path, "pypi:model")
    with pytest.raises(SourceError, match="did you mean pypi:model"):
        remove_model(tmp_path, "pypi:mdel")
    with pytest.raises(SourceError, match="banyan pull smollm2:135m"):
        show_model(tmp_path, "smollm2")


def test_an_alias_removes_the_model_it_stands_for(tmp_path: Path) -> None:
    put(tmp_path, "smollm2:135m")
    remove_model(tmp_path, "smollm2")
    assert list_models(tmp_path) == []
