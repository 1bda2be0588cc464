"""The safetensors files of a model folder: one, or several with an index that must agree with them."""

from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

import msgspec

from banyan.sources.errors import BadFileError
from banyan.sources.safetensors import StoredTensor, read_safetensors

_INDEX: Final = "model.safetensors.index.json"
_WHOLE: Final = "model.safetensors"
_PICKLED: Final = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_MAX_INDEX_BYTES: Final = 100_000_000


@dataclass(frozen=True, slots=True)
class Shard:
    """One file and what it holds."""

    path: Path
    tensors: tuple[StoredTensor, ...]


class _Index(msgspec.Struct, frozen=True):
    weight_map: dict[str, str]


def read_shards(folder: Path) -> tuple[Shard, ...]:
    """Read the headers of all files of a model."""
    index = folder / _INDEX
    if index.is_file():
        return _indexed(index)
    whole = folder / _WHOLE
    if whole.is_file():
        return (Shard(whole, read_safetensors(whole)),)
    found = sorted(folder.glob("*.safetensors"))
    if len(found) == 1:
        return (Shard(found[0], read_safetensors(found[0])),)
    if found:
        raise BadFileError(f"{folder} holds {len(found)} safetensors files but no {_INDEX} that says what is where")
    pickled = [path.name for pattern in _PICKLED for path in sorted(folder.glob(pattern))]
    if pickled:
        raise BadFileError(
            f"{folder} holds weights only as {pickled[0]}, a format that can run code; convert them to safetensors"
        )
    raise BadFileError(f"{folder} holds no safetensors file")


def _indexed(index: Path) -> tuple[Shard, ...]:
    if index.stat().st_size > _MAX_INDEX_BYTES:
        raise BadFileError(f"{index} is longer than {_MAX_INDEX_BYTES} bytes")
    try:
        said = msgspec.json.decode(index.read_bytes(), type=_Index).weight_map
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OSError) as error:
        raise BadFileError(f"{index} cannot be read: {error}") from None
    for name in set(said.values()):
        if PurePath(name).name != name or not name.endswith(".safetensors"):
            raise BadFileError(f"{index} names {name!r:.80}, which is not a safetensors file beside it")
        if not (index.parent / name).is_file():
            raise BadFileError(f"{index} names {name!r:.80}, which is missing")
    shards = tuple(
        Shard(index.parent / name, read_safetensors(index.parent / name)) for name in sorted(set(said.values()))
    )
    held = [(tensor.name, shard.path.name) for shard in shards for tensor in shard.tensors]
    wrong = set(held) ^ set(said.items())
    if wrong or len(held) != len(said):
        example = f", for example about {min(wrong)[0]!r:.80}" if wrong else ""
        raise BadFileError(f"{index} and the files it names disagree about {len(wrong) or 1} tensors{example}")
    return shards
