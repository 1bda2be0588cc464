import os
from pathlib import Path

import pytest

from banyan.sources.cache import FileRecord, Manifest, ModelCache, hash_file, record
from banyan.sources.errors import BadFileError, SourceError

BIG = 17_000_000  # above this size, files that look the same are not hashed


def make(content: dict[str, bytes], folder: Path) -> Manifest:
    files: dict[str, FileRecord] = {}
    for name, data in content.items():
        (folder / name).write_bytes(data)
        files[name] = record(folder / name, hash_file(folder / name))
    return Manifest(name="tiny:1m", kind="gguf", licence="MIT", source="here", files=files)


def filled(root: Path, content: dict[str, bytes]) -> ModelCache:
    cache = ModelCache(root)
    cache.add("tiny:1m", lambda folder: make(content, folder))
    return cache


def test_a_model_is_found_after_it_was_added(tmp_path: Path) -> None:
    cache = filled(tmp_path, {"model.gguf": b"x" * 100})
    found = cache.find("tiny:1m")
    assert found is not None
    assert (found.kind, found.name, found.licence) == ("gguf", "tiny:1m", "MIT")
    assert found.path.read_bytes() == b"x" * 100
    [(folder, manifest)] = cache.manifests()
    assert (folder, manifest.num_bytes) == (found.path.parent, 100)
    assert cache.find("tiny@1m") is None
    assert cache.find("tiny") is None


def test_a_failed_pull_leaves_nothing(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path)

    def fail(folder: Path) -> Manifest:
        (folder / "half").write_bytes(b"x")
        raise SourceError("the network is gone")

    with pytest.raises(SourceError, match="network"):
        cache.add("tiny:1m", fail)
    assert cache.find("tiny:1m") is None
    assert [path for path in tmp_path.rglob("*") if path.is_file() and not path.name.startswith(".lock")] == []


def test_a_model_that_is_there_is_not_made_again(tmp_path: Path) -> None:
    cache = filled(tmp_path, {"model.gguf": b"first"})
    cache.add("tiny:1m", lambda folder: make({"model.gguf": b"second"}, folder))
    found = cache.find("tiny:1m")
    assert found is not None
    assert found.path.read_bytes() == b"first"


def test_what_is_left_of_a_killed_pull_is_swept_away(tmp_path: Path) -> None:
    (tmp_path / "models" / ".new-tiny@1m").mkdir(parents=True)
    (tmp_path / "models" / ".new-tiny@1m" / "model.gguf").write_bytes(b"half")
    (tmp_path / "models" / "tiny@1m").mkdir()
    assert filled(tmp_path, {"model.gguf": b"whole"}).find("tiny:1m") is not None


@pytest.mark.parametrize("size", [100, BIG])
def test_a_changed_byte_is_refused(tmp_path: Path, size: int) -> None:
    cache = filled(tmp_path, {"model.gguf": bytes(size)})
    found = cache.find("tiny:1m")
    assert found is not None
    with found.path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"!")
    os.utime(found.path, ns=(1, 1))
    with pytest.raises(BadFileError, match="banyan rm tiny:1m"):
        cache.find("tiny:1m")


def test_a_small_file_is_hashed_even_if_it_looks_the_same(tmp_path: Path) -> None:
    cache = filled(tmp_path, {"model.gguf": b"abc"})
    found = cache.find("tiny:1m")
    assert found is not None
    stat = found.path.stat()
    found.path.write_bytes(b"abd")
    os.utime(found.path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(BadFileError, match="is not what was downloaded"):
        cache.find("tiny:1m")


def test_a_copied_cache_is_hashed_and_trusted(tmp_path: Path) -> None:
    cache = filled(tmp_path, {"model.gguf": bytes(BIG)})
    found = cache.find("tiny:1m")
    assert found is not None
    os.utime(found.path, ns=(1, 1))
    assert cache.find("tiny:1m") == found


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    cache = filled(tmp_path, {"model.gguf": b"abc", "more": b"def"})
    next(tmp_path.rglob("more")).unlink()
    with pytest.raises(BadFileError, match="more is not what was downloaded"):
        cache.find("tiny:1m")


def test_a_file_that_was_added_is_refused(tmp_path: Path) -> None:
    cache = filled(tmp_path, {"model.gguf": b"abc"})
    (tmp_path / "models" / "tiny@1m" / "generation_config.json").write_bytes(b"{}")
    with pytest.raises(BadFileError, match=r"holds 'generation_config\.json', which was not downloaded"):
        cache.find("tiny:1m")


def test_other_hashes_than_the_catalogues_are_refused(tmp_path: Path) -> None:
    cache = filled(tmp_path, {"model.gguf": b"abc"})
    right = {"model.gguf": hash_file(next(tmp_path.rglob("model.gguf")))}
    assert cache.find("tiny:1m", right) is not None
    with pytest.raises(BadFileError, match="another version of tiny:1m"):
        cache.find("tiny:1m", {"model.gguf": "0" * 64})


def test_a_manifest_that_cannot_be_read_is_refused_and_not_listed(tmp_path: Path) -> None:
    cache = filled(tmp_path, {"model.gguf": b"abc"})
    next(tmp_path.rglob("manifest.json")).write_bytes(b"{")
    with pytest.raises(BadFileError, match="cannot be read"):
        cache.find("tiny:1m")
    assert cache.manifests() == []


def test_a_model_is_removed_once(tmp_path: Path) -> None:
    cache = filled(tmp_path, {"model.gguf": b"abc"})
    assert cache.remove("tiny:1m")
    assert not cache.remove("tiny:1m")
    assert list(tmp_path.rglob("model.gguf")) == []


@pytest.mark.parametrize("name", ["../../tmp/x", "/etc", "..", "a/../b", "a\\b", "pypi:x==1.0"])
def test_no_name_leaves_the_cache(tmp_path: Path, name: str) -> None:
    cache = ModelCache(tmp_path)
    cache.add(name, lambda folder: make({"model.gguf": b"x"}, folder))
    found = cache.find(name)
    assert found is not None
    assert found.path.resolve().is_relative_to((tmp_path / "models").resolve())
    assert found.path.parent.parent == tmp_path / "models"


@pytest.mark.parametrize("name", ["..", ".", "../..", "models"])
def test_removing_a_strange_name_removes_nothing(tmp_path: Path, name: str) -> None:
    filled(tmp_path, {"model.gguf": b"x"})
    before = sorted(tmp_path.rglob("*"))
    assert not ModelCache(tmp_path).remove(name)
    with pytest.raises(SourceError, match="must have a name"):
        ModelCache(tmp_path).remove("")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "models").write_bytes(b"a file")
    with pytest.raises(SourceError, match="tiny:1m cannot be kept in"):
        ModelCache(tmp_path).add("tiny:1m", lambda folder: make({}, folder))
