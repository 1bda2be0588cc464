"""The inventory: listing, showing and removing the models in the cache."""

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from banyan.config.card import ModelCard
from banyan.config.errors import suggest
from banyan.sources.cache import Manifest, ModelCache
from banyan.sources.card import model_card
from banyan.sources.catalogue import find_model
from banyan.sources.errors import SourceError
from banyan.sources.gguf import read_gguf
from banyan.sources.local import LocalModel
from banyan.sources.resolve import resolve_source
from banyan.sources.shards import read_shards


@dataclass(frozen=True, slots=True)
class CachedModel:
    """A model in the cache."""

    name: str
    kind: str
    num_bytes: int
    licence: str
    source: str
    path: Path


@dataclass(frozen=True, slots=True)
class ModelDetails:
    """What can be said of a model without loading it."""

    model: LocalModel
    card: ModelCard
    num_parameters: int
    formats: dict[str, int]  # how many tensors are stored in which format


def list_models(cache: Path) -> list[CachedModel]:
    """List what was downloaded, by name."""
    return [_cached(path, manifest) for path, manifest in ModelCache(cache).manifests()]


def remove_model(cache: Path, name: str) -> None:
    """Delete a downloaded model."""
    known = find_model(name)
    if not ModelCache(cache).remove(name if known is None else known.name):
        near = suggest(name, [model.name for model in list_models(cache)])
        raise SourceError(f"there is no model {name!r:.80} in {cache}{near}")


def show_model(cache: Path, spec: str) -> ModelDetails:
    """Describe a model that is on this machine, in the cache or at a path."""
    model = resolve_source(spec, cache, download=False)
    if model.kind == "oracle":
        return ModelDetails(model, model_card(model), 0, {})
    if model.kind == "gguf":
        tensors = [(entry.type.name, entry.shape) for entry in read_gguf(model.path).tensors]
    else:
        tensors = [(tensor.dtype, tensor.shape) for shard in read_shards(model.path) for tensor in shard.tensors]
    formats = Counter(form for form, _ in tensors)
    return ModelDetails(model, model_card(model), sum(math.prod(shape) for _, shape in tensors), dict(formats))


def _cached(path: Path, manifest: Manifest) -> CachedModel:
    return CachedModel(
        name=manifest.name,
        kind=manifest.kind,
        num_bytes=manifest.num_bytes,
        licence=manifest.licence,
        source=manifest.source,
        path=path,
    )
