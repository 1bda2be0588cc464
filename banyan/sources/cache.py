"""ModelCache: downloaded models on disk, each with a manifest of hashes. A model is there whole or not at all."""

import fcntl
import hashlib
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from banyan.sources.errors import BadFileError, SourceError
from banyan.sources.local import Kind, LocalModel

_MANIFEST: Final = "manifest.json"
_GGUF_FILE: Final = "model.gguf"
_ALWAYS_HASHED_BYTES: Final = 16_000_000  # smaller files are hashed at every use; larger ones when they look changed
_UNSAFE: Final = re.compile(r"^\.|[^A-Za-z0-9._=-]")


class FileRecord(msgspec.Struct, frozen=True):
    """What a file was when it was downloaded."""

    num_bytes: int
    sha256: str
    mtime_ns: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A downloaded model."""

    name: str
    kind: Kind
    licence: str
    source: str  # where it came from
    files: dict[str, FileRecord]

    @property
    def num_bytes(self) -> int:
        """The size of all files."""
        return sum(record.num_bytes for record in self.files.values())


class ModelCache:
    """The models below a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root / "models"

    def find(self, name: str, hashes: Mapping[str, str] | None = None) -> LocalModel | None:
        """Return a model that is here and unchanged; refuse one that has changed, or has not the hashes it should."""
        folder = self._folder(name)
        if not (folder / _MANIFEST).is_file():
            return None
        manifest = _read(folder)
        if hashes is not None and hashes != {file: said.sha256 for file, said in manifest.files.items()}:
            raise BadFileError(
                f"{folder} holds another version of {name} than the catalogue; remove it with `banyan rm {name}`"
            )
        _verify(folder, manifest)
        path = folder / _GGUF_FILE if manifest.kind == "gguf" else folder
        return LocalModel(path, manifest.kind, manifest.name, manifest.licence)

    def manifests(self) -> list[tuple[Path, Manifest]]:
        """List what is here. A manifest that cannot be read counts as a model that is not here."""
        found = []
        for path in sorted(self._root.glob(f"*/{_MANIFEST}")):
            try:
                found.append((path.parent, _read(path.parent)))
            except BadFileError:
                continue
        return found

    def remove(self, name: str) -> bool:
        """Delete a model; tell whether there was one."""
        folder = self._folder(name)
        if not folder.is_dir():
            return False
        # Renamed first: nobody sees half a model.
        gone = self._root / f".gone-{folder.name}"
        shutil.rmtree(gone, ignore_errors=True)
        folder.rename(gone)
        shutil.rmtree(gone)
        return True

    def add(self, name: str, make: Callable[[Path], Manifest]) -> None:
        """Have a model put into an empty folder, and take it in. What is left of a failed try is swept away."""
        folder = self._folder(name)
        building = self._root / f".new-{folder.name}"
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            with self._locked(folder.name):
                if (folder / _MANIFEST).is_file():
                    return  # another process was faster
                shutil.rmtree(building, ignore_errors=True)
                building.mkdir()
                try:
                    manifest = make(building)
                    (building / _MANIFEST).write_bytes(msgspec.json.encode(manifest))
                    shutil.rmtree(folder, ignore_errors=True)
                    building.rename(folder)
                finally:
                    shutil.rmtree(building, ignore_errors=True)
        except OSError as error:
            raise SourceError(f"{name} cannot be kept in {self._root}: {error.strerror or error}") from error

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Keep other processes from adding the same model; they wait."""
        with (self._root / f".lock-{name}").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _folder(self, name: str) -> Path:
        # `smollm2:135m` is a bad file name on some systems, and `..` on all. No two names share a folder.
        safe = _UNSAFE.sub(lambda found: {":": "@", "/": "+"}.get(found[0], f"%{ord(found[0]):x}"), name)
        if not safe:
            raise SourceError("a model must have a name")
        return self._root / safe


def record(path: Path, sha256: str) -> FileRecord:
    """Describe a file that was just written."""
    stat = path.stat()
    return FileRecord(stat.st_size, sha256, stat.st_mtime_ns)


def _read(folder: Path) -> Manifest:
    try:
        return msgspec.json.decode((folder / _MANIFEST).read_bytes(), type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, OSError) as error:
        raise BadFileError(f"{folder / _MANIFEST} cannot be read: {error}; remove {folder}") from None


def _verify(folder: Path, manifest: Manifest) -> None:
    inside = (path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())
    strangers = {path.as_posix() for path in inside if not path.name.startswith(".")} - {_MANIFEST, *manifest.files}
    if strangers:
        raise BadFileError(f"{folder} holds {min(strangers)!r:.80}, which was not downloaded; remove it")
    for name, said in manifest.files.items():
        path = folder / name
        stat = path.stat() if path.is_file() else None
        looks_same = stat is not None and (stat.st_size, stat.st_mtime_ns) == (said.num_bytes, said.mtime_ns)
        if looks_same and said.num_bytes > _ALWAYS_HASHED_BYTES:
            continue
        if stat is None or stat.st_size != said.num_bytes or hash_file(path) != said.sha256:
            raise BadFileError(
                f"{path} is not what was downloaded; remove it with `banyan rm {manifest.name}` and pull it again"
            )


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
