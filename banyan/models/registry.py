"""build_model: a network from its architecture, by family; families are imported on demand."""

import importlib
from typing import Final

import torch

from banyan.config.architecture import Architecture
from banyan.layers.parameter import Place
from banyan.models.decoder import Decoder
from banyan.models.encoder import Encoder
from banyan.models.heads import LMHead, PoolHead, ScoreHead
from banyan.models.model import Model
from banyan.models.names import Family
from banyan.models.spec import DecoderSpec, EncoderSpec

FAMILIES: Final[dict[str, str]] = {
    "bert": "banyan.models.families.bert",
    "deepseek_v2": "banyan.models.families.deepseek",
    "deepseek_v3": "banyan.models.families.deepseek",
    "gemma2": "banyan.models.families.gemma",
    "gemma3": "banyan.models.families.gemma",
    "gpt_oss": "banyan.models.families.gpt_oss",
    "llama": "banyan.models.families.llama",
    "mistral": "banyan.models.families.llama",
    "mixtral": "banyan.models.families.mixtral",
    "phi3": "banyan.models.families.phi3",
    "qwen2": "banyan.models.families.qwen",
    "qwen3": "banyan.models.families.qwen",
    "qwen3_moe": "banyan.models.families.qwen",
}


def get_family(name: str) -> Family:
    """Return a family by its name."""
    if name not in FAMILIES:
        raise KeyError(f"no model family {name!r}; there are {', '.join(FAMILIES)}")
    family = importlib.import_module(FAMILIES[name]).FAMILY
    if not isinstance(family, Family):
        raise TypeError(f"{FAMILIES[name]}.FAMILY is no Family")
    return family


def build_model(
    shape: Architecture, *, context_length: int, device: torch.device, dtype: torch.dtype, layers: range | None = None
) -> Model:
    """Build a network, or the stage of it that has some of its layers. Its parameters are not filled yet.

    `context_length` is the engine's: longest sequence that will be run.
    """
    family = get_family(shape.family)
    spec = family.spec(shape)
    place = Place(device, dtype)
    layers = range(shape.num_layers) if layers is None else layers
    if isinstance(spec, EncoderSpec):
        if len(layers) != shape.num_layers:
            raise ValueError(f"{shape.family} cannot be cut into stages")
        encoder = Encoder(spec, place)
        return Model(family, shape, encoder, _head(shape, spec, encoder, place))
    decoder = Decoder(spec, layers, context_length, place)
    last = layers.stop == shape.num_layers
    return Model(family, shape, decoder, _head(shape, spec, decoder, place) if last else None)


def _head(
    shape: Architecture, spec: DecoderSpec | EncoderSpec, body: Decoder | Encoder, place: Place
) -> LMHead | PoolHead | ScoreHead:
    if shape.head == "pool":
        return PoolHead(shape.pooling)
    if shape.head == "score":
        return ScoreHead(shape.hidden_size, shape.num_labels, dense=shape.encoder is not None, place=place)
    if isinstance(spec, EncoderSpec):
        raise ValueError(f"{shape.family} cannot generate")
    tied = body.embed.weight if spec.tie_embeddings and body.embed is not None else None
    return LMHead(spec.hidden_size, spec.vocab_size, softcap=spec.logit_softcap, place=place, weight=tied)
