"""model_card: what the engine must know of a model on this machine, whatever form it has."""

from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from banyan.config.architecture import Pooling
from banyan.config.card import ModelCard, read_card
from banyan.config.gguf_card import card_from_gguf
from banyan.sources.errors import BadFileError
from banyan.sources.gguf import GGUFHeader, read_gguf
from banyan.sources.local import LocalModel

# The tensors that belong to the shape of a network: how much its rotary frequencies are stretched.
_SMALL: Final = ("rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight")
_MAX_SMALL: Final = 65_536
_POOLINGS: Final[dict[str, Pooling]] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "last",
}


def model_card(model: LocalModel) -> ModelCard:
    """Read the card of a model."""
    if model.kind != "gguf":
        card = replace(read_card(str(model.path)), name=model.name)
        return _pooled(card, model.path / "1_Pooling" / "config.json")
    header = read_gguf(model.path)
    return card_from_gguf(
        header.metadata,
        {entry.name: entry.shape for entry in header.tensors},
        _small_floats(model.path, header),
        name=model.name,
        tokenizer=str(model.path),
    )


def _pooled(card: ModelCard, path: Path) -> ModelCard:
    """Take over how an embedding is made of a text, which a file of its own says."""
    if card.architecture is None or not path.is_file():
        return card
    try:
        modes = msgspec.json.decode(path.read_bytes(), type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadFileError(f"{path} cannot be read: {error}") from None
    chosen = [key for key, value in modes.items() if key.startswith("pooling_mode_") and value is True]
    pooling = _POOLINGS.get(chosen[0]) if len(chosen) == 1 else None
    if pooling is None:
        raise BadFileError(f"{path} asks for {chosen or 'no pooling'}; known are {', '.join(_POOLINGS)}, one at a time")
    return replace(card, architecture=replace(card.architecture, pooling=pooling))


def _small_floats(path: Path, header: GGUFHeader) -> dict[str, tuple[float, ...]]:
    found = {}
    with path.open("rb") as file:
        for entry in header.tensors:
            if entry.name in _SMALL and entry.type.name == "F32" and entry.num_bytes <= _MAX_SMALL:
                file.seek(entry.offset)
                found[entry.name] = tuple(np.frombuffer(file.read(entry.num_bytes), "<f4").tolist())
    return found
