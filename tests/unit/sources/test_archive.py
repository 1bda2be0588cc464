import hashlib
from contextlib import closing
from pathlib import Path

import pytest

from banyan.sources.archive import Sink, open_archive
from banyan.sources.errors import BadFileError
from tests.unit.sources.files import make_tarball, make_wheel

CONTENT = {"pkg/a.bin": b"a" * 3000, "pkg/b.bin": b"b" * 5}


@pytest.fixture(params=["whl", "tgz"])
def archive_path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    make = make_wheel if request.param == "whl" else make_tarball
    return make(tmp_path / f"pkg.{request.param}", CONTENT)


def test_parts_are_joined_and_hashed(archive_path: Path, tmp_path: Path) -> None:
    with closing(Sink(tmp_path / "deep" / "out")) as sink, open_archive(archive_path) as archive:
        assert archive.sizes == {name: len(content) for name, content in CONTENT.items()}
        sink.copy(archive, "pkg/b.bin", 4000)
        sink.copy(archive, "pkg/a.bin", 4000)
    joined = b"b" * 5 + b"a" * 3000
    assert (tmp_path / "deep" / "out").read_bytes() == joined
    assert (sink.num_bytes, sink.sha256) == (3005, hashlib.sha256(joined).hexdigest())


def test_more_than_was_expected_is_refused(archive_path: Path, tmp_path: Path) -> None:
    with (
        closing(Sink(tmp_path / "out")) as sink,
        open_archive(archive_path) as archive,
        pytest.raises(BadFileError, match="longer than the 2999 bytes"),
    ):
        sink.copy(archive, "pkg/a.bin", 2999)
    assert (tmp_path / "out").stat().st_size == 0


def test_a_torn_archive_is_refused(archive_path: Path, tmp_path: Path) -> None:
    raw = archive_path.read_bytes()
    archive_path.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(BadFileError, match="not a package that can be read"), open_archive(archive_path):
        pass


def test_damage_in_a_member_is_found(tmp_path: Path) -> None:
    path = make_wheel(tmp_path / "pkg.whl", {"a": bytes(range(256)) * 50})
    raw = bytearray(path.read_bytes())
    raw[60] ^= 0xFF
    path.write_bytes(bytes(raw))
    with (
        closing(Sink(tmp_path / "out")) as sink,
        open_archive(path) as archive,
        pytest.raises(BadFileError, match="cannot be copied out"),
    ):
        sink.copy(archive, "a", 1 << 20)
