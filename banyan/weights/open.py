"""open_weights: the checkpoint of a model that lies on this machine."""

from typing import Literal

import torch

from banyan.config.errors import ConfigError
from banyan.sources.local import Kind, LocalModel
from banyan.sources.shards import read_shards
from banyan.weights.gguf import GGUFSource
from banyan.weights.safetensors import SafetensorsSource
from banyan.weights.source import WeightSource

LoadFormat = Literal["auto", "safetensors", "gguf"]

_KINDS: dict[LoadFormat, Kind] = {"safetensors": "hf", "gguf": "gguf"}


def open_weights(
    model: LocalModel, load_format: LoadFormat = "auto", dtype: torch.dtype = torch.float32
) -> WeightSource:
    """Open a checkpoint: headers are read and checked. `dtype` is what quantised tensors become."""
    if load_format != "auto" and _KINDS[load_format] != model.kind:
        raise ConfigError(f"{model.path} cannot be loaded as {load_format}; use --load-format auto")
    if model.kind == "gguf":
        return GGUFSource(model.path, dtype)
    if model.kind == "hf":
        return SafetensorsSource(read_shards(model.path))
    raise ConfigError(f"the model {model.name} has no weights")
