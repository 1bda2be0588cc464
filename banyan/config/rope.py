"""RopeCard: how positions turn queries and keys, read from a model's config."""

import math
from typing import Final, Literal

import msgspec

from banyan.config.errors import ConfigError
from banyan.config.hf import HfConfig, RopeEntries

RopeKind = Literal["default", "linear", "dynamic", "yarn", "llama3", "longrope"]

_KINDS: Final[dict[str, RopeKind]] = {
    "default": "default",
    "linear": "linear",
    "dynamic": "dynamic",
    "yarn": "yarn",
    "llama3": "llama3",
    "longrope": "longrope",
}


class RopeCard(msgspec.Struct, frozen=True, kw_only=True):
    """A rotary embedding: base frequencies and how they are stretched for long contexts."""

    theta: float
    rotary_dim: int  # leading dimensions of a head that turn
    interleaved: bool = False  # pairs are (0, 1), (2, 3) ...; else (0, n/2), (1, n/2 + 1) ...
    kind: RopeKind = "default"
    factor: float = 1.0
    original_length: int = 0  # the context length before stretching
    attention_factor: float = 1.0  # cosines and sines are multiplied by it
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    short_factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()


def read_rope(
    config: HfConfig, head_dim: int, *, layer_type: str = "full_attention", interleaved: bool = False
) -> RopeCard:
    """Read the rotary embedding of a kind of layer."""
    entries = config.rope(layer_type)
    kind = _KINDS.get(entries.kind())
    if kind is None:
        raise ConfigError(f"config.json: rope scaling {entries.kind()!r} is not known; known are {', '.join(_KINDS)}")
    longest = config.whole("max_position_embeddings")
    original = int(entries.number("original_max_position_embeddings", longest))
    factor = _factor(entries, kind, longest / original)
    return RopeCard(
        theta=entries.number("rope_theta", 10_000.0),
        rotary_dim=int(head_dim * entries.number("partial_rotary_factor", 1.0)),
        interleaved=interleaved,
        kind=kind,
        factor=factor,
        original_length=original,
        attention_factor=_attention_factor(entries, kind, factor, original),
        beta_fast=entries.number("beta_fast", 32.0) or 32.0,
        beta_slow=entries.number("beta_slow", 1.0) or 1.0,
        truncate=entries.flag("truncate", True),
        low_freq_factor=entries.required("low_freq_factor") if kind == "llama3" else 1.0,
        high_freq_factor=entries.required("high_freq_factor") if kind == "llama3" else 4.0,
        short_factors=entries.numbers("short_factor"),
        long_factors=entries.numbers("long_factor"),
    )


def stretched_length(rope: RopeCard, longest: int) -> int:
    """Return the longest context: a config's own number may be the one from before the stretching."""
    if rope.kind in ("linear", "dynamic"):
        return int(longest * rope.factor)
    if rope.kind == "yarn":
        return max(longest, int(rope.original_length * rope.factor))
    return longest


def yarn_mscale(factor: float, mscale: float = 1.0) -> float:
    """Return YaRN's temperature for a stretch."""
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def attention_mscale(config: HfConfig) -> float:
    """Return what DeepSeek multiplies the attention scale by when its context is stretched."""
    entries = config.rope("full_attention")
    all_dim = entries.number("mscale_all_dim", 0.0)
    if entries.kind() == "default" or not all_dim:
        return 1.0
    return yarn_mscale(entries.required("factor"), all_dim) ** 2


def _factor(entries: RopeEntries, kind: RopeKind, ratio: float) -> float:
    if kind == "default":
        return 1.0
    if kind in ("yarn", "longrope"):
        return entries.number("factor", ratio)
    return entries.required("factor")


def _attention_factor(entries: RopeEntries, kind: RopeKind, factor: float, original: int) -> float:
    if kind not in ("yarn", "longrope"):
        return 1.0
    if entries.has("attention_factor"):
        return entries.number("attention_factor", 1.0)
    if kind == "longrope":
        return 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
    mscale, all_dim = entries.number("mscale", 0.0), entries.number("mscale_all_dim", 0.0)
    if mscale and all_dim:
        return yarn_mscale(factor, mscale) / yarn_mscale(factor, all_dim)
    return yarn_mscale(factor)
