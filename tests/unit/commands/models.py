"""Models that tests put into a cache, without downloading any."""

from pathlib import Path

from banyan.sources.cache import Manifest, ModelCache, hash_file, record
from tests.unit.sources.files import make_gguf


def put_model(cache: Path, name: str) -> Path:
    """Put a tiny model under a name into a cache; return its file."""

    def make(folder: Path) -> Manifest:
        path = make_gguf(folder / "model.gguf", {"tokenizer.chat_template": "{{ messages }}"})
        files = {"model.gguf": record(path, hash_file(path))}
        return Manifest(name=name, kind="gguf", licence="MIT", source="here", files=files)

    ModelCache(cache).add(name, make)
    found = ModelCache(cache).find(name)
    assert found is not None
    return found.path
