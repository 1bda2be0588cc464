import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from banyan.sources.errors import SourceError
from banyan.sources.hub import from_hub, load_hub
from tests.unit.sources.files import make_folder, make_gguf


class FakeHub:
    """A hub with one repository."""

    def __init__(self, folder: Path, fail: Exception | None = None) -> None:
        self._folder = folder
        self._fail = fail
        self.asked: list[tuple[str, list[str], bool]] = []

    def snapshot_download(self, repo_id: str, *, allow_patterns: list[str], local_files_only: bool) -> str:
        self.asked.append((repo_id, allow_patterns, local_files_only))
        if self._fail is not None:
            raise self._fail
        return str(self._folder)


def test_a_folder_is_fetched_without_code_or_pickles(tmp_path: Path) -> None:
    hub = FakeHub(make_folder(tmp_path / "snapshot"))
    found = from_hub(hub, "user/repo", "", download=True)
    assert (found.kind, found.name, found.path) == ("hf", "user/repo", tmp_path / "snapshot")
    [(repo, patterns, local)] = hub.asked
    assert (repo, local) == ("user/repo", False)
    assert not any(pattern.endswith((".py", ".bin", "*")) for pattern in patterns)


def test_a_quantisation_is_one_file(tmp_path: Path) -> None:
    make_gguf(tmp_path / "m-Q4_K_M.gguf")
    make_gguf(tmp_path / "m-q4_k.gguf")
    found = from_hub(FakeHub(tmp_path), "user/repo", "q4_k_m", download=False)
    assert (found.kind, found.name, found.path.name) == ("gguf", "user/repo:q4_k_m", "m-Q4_K_M.gguf")
    with pytest.raises(SourceError, match=r"has 0 files that end in Q8_0\.gguf"):
        from_hub(FakeHub(tmp_path), "user/repo", "Q8_0", download=True)


@pytest.mark.parametrize(
    ("download", "hint"), [(True, "check the name and the network"), (False, "try `banyan pull user/repo`")]
)
def test_offline_one_is_told_what_to_do(tmp_path: Path, download: bool, hint: str) -> None:
    hub = FakeHub(tmp_path, OSError("Network is unreachable\nand many lines of details"))
    with pytest.raises(SourceError, match=f"Network is unreachable; {hint}") as caught:
        from_hub(hub, "user/repo", "", download)
    assert "\n" not in str(caught.value)


def test_without_the_client_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(SourceError, match="pip install huggingface_hub"):
        load_hub()


def test_the_client_has_what_is_used_of_it() -> None:
    function: Callable[..., str] = load_hub().snapshot_download
    assert callable(function)
