import os
import stat
from pathlib import Path

import pytest

from banyan.sources import packages
from banyan.sources.errors import SourceError
from banyan.sources.packages import Package, download
from banyan.sources.progress import silent
from tests.unit.sources.files import make_wheel

INFO = "tiny_model-1.0.dist-info"
WHEEL = {
    "tiny_model/model.gguf": b"GGUF",
    f"{INFO}/METADATA": b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n",
    f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{INFO}/RECORD": b"",
}


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for its index, as a firm's mirror would be."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def fake_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text(f"#!/bin/sh\n{script}\n")
    npm.chmod(npm.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{npm.parent}{os.pathsep}{os.environ['PATH']}")


def test_a_wheel_is_fetched_as_a_file(tmp_path: Path, index: Path) -> None:
    wheel = make_wheel(index / "tiny_model-1.0-py3-none-any.whl", WHEEL)
    found = download(Package("pypi", "tiny-model", "1.0"), tmp_path / "scratch", "x", 0, 0, silent)
    assert found.name == wheel.name
    assert found.read_bytes() == wheel.read_bytes()


def test_an_unknown_package_is_named_with_the_reason(tmp_path: Path, index: Path) -> None:
    del index
    with pytest.raises(SourceError, match=r"pypi:no-such cannot be fetched: .*no-such"):
        download(Package("pypi", "no-such"), tmp_path / "scratch", "x", 0, 0, silent)


def test_source_packages_are_not_even_looked_at(tmp_path: Path, index: Path) -> None:
    # pip would run its setup.py to learn its name.
    (index / "tiny-model-1.0.tar.gz").write_bytes(b"")
    with pytest.raises(SourceError, match="No matching distribution"):
        download(Package("pypi", "tiny-model", "1.0"), tmp_path / "scratch", "x", 0, 0, silent)


def test_npm_packs_and_runs_no_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Arguments: pack --ignore-scripts --cache=X --pack-destination FOLDER NAME
    fake_npm(tmp_path, monkeypatch, 'echo "$@" > "$5/package.tgz"')
    found = download(Package("npm", "@a/b", "2.0.0"), tmp_path / "scratch", "x", 0, 0, silent)
    words = found.read_text().split()
    assert words[:2] == ["pack", "--ignore-scripts"]
    assert words[-1] == "@a/b@2.0.0"


def test_progress_counts_on_from_earlier_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # It grows, and then waits until it has been seen to grow.
    seen = tmp_path / "seen"
    script = f'head -c 1000 /dev/zero > "$5/package.tgz"; while [ ! -e {seen} ]; do :; done'
    fake_npm(tmp_path, monkeypatch, script)
    told: list[tuple[str, int, int]] = []

    def tell(label: str, done: int, total: int) -> None:
        told.append((label, done, total))
        seen.touch()

    download(Package("npm", "b"), tmp_path / "scratch", "pulling", 500, 1200, tell)
    assert told[-1] == ("pulling", 1200, 1200)  # never more than all
    assert told[0][1] >= 500


def test_a_download_that_stalls_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_STALL_S", 0.1)
    fake_npm(tmp_path, monkeypatch, "exec sleep 60")
    with pytest.raises(SourceError, match="nothing came for"):
        download(Package("npm", "b"), tmp_path / "scratch", "x", 0, 0, silent)


def test_without_npm_one_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SourceError, match="npm, which is not installed"):
        download(Package("npm", "b"), tmp_path / "scratch", "x", 0, 0, silent)


@pytest.mark.parametrize(
    ("name", "version"), [("--index-url=x", ""), ("a b", ""), ("", ""), ("a", "-r x"), ("a/b", "")]
)
def test_names_cannot_pass_for_options(name: str, version: str) -> None:
    with pytest.raises(SourceError, match="is not a package name"):
        Package("pypi", name, version)
