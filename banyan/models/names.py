"""Family, Source, and the tables of tensor names that families have in common.

Paths and names are templates: {i} is the number of a layer, {e} that of an expert.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from torch import Tensor

from banyan.config.architecture import Architecture
from banyan.models.spec import DecoderSpec, EncoderSpec
from banyan.weights.assign import Target, Transform

Style: TypeAlias = Literal["hf", "gguf"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A checkpoint tensor, and what must be done to it."""

    name: str
    transform: Transform | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """The tensors that make up a parameter: one for all of it, or one for each of its parts."""

    hf: tuple[Entry, ...]
    gguf: tuple[Entry, ...] = ()

    def entries(self, style: Style) -> tuple[Entry, ...]:
        """Return the tensors of a kind of checkpoint."""
        return self.hf if style == "hf" else self.gguf


Names: TypeAlias = dict[str, Source]  # parameter path -> tensors; may name parameters that a model has not


@dataclass(frozen=True, slots=True)
class Family:
    """What there is to know of a family. Hugging Face names are written without the prefixes that they may have."""

    spec: Callable[[Architecture], DecoderSpec | EncoderSpec]
    names: Callable[[Architecture], Names]
    prefixes: tuple[str, ...] = ("model.",)
    ignored: Callable[[Architecture], tuple[str, ...]] = lambda _: ()  # patterns of tensors that are not wanted


def targets(names: Names, style: Style, layers: Iterable[int], num_experts: int) -> dict[str, Target]:
    """Write a table out: what each tensor name fills."""
    found: dict[str, Target] = {}
    numbers = tuple(layers)
    for path, source in names.items():
        entries = source.entries(style)
        for number, entry in enumerate(entries):
            part = number if len(entries) > 1 else None
            for layer in numbers if "{i}" in path else (0,):
                for expert in range(num_experts) if "{e}" in entry.name else (None,):
                    name = entry.name.replace("{i}", str(layer)).replace("{e}", str(expert))
                    found[name] = Target(path.replace("{i}", str(layer)), part, expert, entry.transform)
    return found


def tensor(path: str, hf: str, gguf: str = "", transform: Transform | None = None) -> Names:
    """Name the one tensor of a parameter; `transform` is for GGUF's."""
    return {path: Source((Entry(hf),), (Entry(gguf, transform),) if gguf else ())}


def module(path: str, hf: str, gguf: str = "", transform: Transform | None = None) -> Names:
    """Name weight and bias of a module."""
    return merged(path, (hf,), (gguf,) if gguf else (), (transform,))


def merged(
    path: str, hf: tuple[str, ...], gguf: tuple[str, ...], transforms: tuple[Transform | None, ...] = ()
) -> Names:
    """Name weight and bias of a module that is made of several; `transforms` are for GGUF's."""
    steps = transforms or (None,) * len(gguf)
    return {
        f"{path}.{kind}": Source(
            tuple(Entry(f"{name}.{kind}") for name in hf),
            tuple(Entry(f"{name}.{kind}", step) for name, step in zip(gguf, steps, strict=False)),
        )
        for kind in ("weight", "bias")
    }


def outer(norm: Transform | None = None) -> Names:
    """Name what is around the layers of a decoder; `norm` is for GGUF's norms."""
    return {
        **tensor("embed.weight", "embed_tokens.weight", "token_embd.weight"),
        **tensor("norm.weight", "norm.weight", "output_norm.weight", norm),
        **tensor("head.weight", "lm_head.weight", "output.weight"),
        **module("head.score", "score"),
    }


def layer_norms() -> Names:
    """Name the norms before attention and feed-forward."""
    return {
        **tensor("layers.{i}.attn_norm.weight", "layers.{i}.input_layernorm.weight", "blk.{i}.attn_norm.weight"),
        **tensor("layers.{i}.mlp_norm.weight", "layers.{i}.post_attention_layernorm.weight", "blk.{i}.ffn_norm.weight"),
    }


def sandwich_norms(norm: Transform) -> Names:
    """Name the norms before and behind attention and feed-forward, as Gemma has them."""
    named = {
        "attn_norm": ("input_layernorm", "attn_norm"),
        "post_attn_norm": ("post_attention_layernorm", "post_attention_norm"),
        "mlp_norm": ("pre_feedforward_layernorm", "ffn_norm"),
        "post_mlp_norm": ("post_feedforward_layernorm", "post_ffw_norm"),
    }
    return {
        f"layers.{{i}}.{path}.weight": Source(
            (Entry(f"layers.{{i}}.{hf}.weight"),), (Entry(f"blk.{{i}}.{gguf}.weight", norm),)
        )
        for path, (hf, gguf) in named.items()
    }


def attention(q: Transform | None = None, k: Transform | None = None) -> Names:
    """Name the projections of attention; `q` and `k` are for GGUF's."""
    return {
        **merged(
            "layers.{i}.attn.qkv",
            tuple(f"layers.{{i}}.self_attn.{part}_proj" for part in "qkv"),
            tuple(f"blk.{{i}}.attn_{part}" for part in "qkv"),
            (q, k, None),
        ),
        **module("layers.{i}.attn.o", "layers.{i}.self_attn.o_proj", "blk.{i}.attn_output"),
    }


def head_norms(norm: Transform | None = None) -> Names:
    """Name the norms of queries and keys; `norm` is for GGUF's."""
    return {
        **tensor(
            "layers.{i}.attn.q_norm.weight", "layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight", norm
        ),
        **tensor(
            "layers.{i}.attn.k_norm.weight", "layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight", norm
        ),
    }


def mlp(path: str = "layers.{i}.mlp", hf: str = "layers.{i}.mlp", suffix: str = "") -> Names:
    """Name the projections of a gated feed-forward block; GGUF marks that of shared experts by a suffix."""
    return {
        **merged(
            f"{path}.gate_up",
            (f"{hf}.gate_proj", f"{hf}.up_proj"),
            (f"blk.{{i}}.ffn_gate{suffix}", f"blk.{{i}}.ffn_up{suffix}"),
        ),
        **module(f"{path}.down", f"{hf}.down_proj", f"blk.{{i}}.ffn_down{suffix}"),
    }


def experts(block: str = "mlp", gate: str = "gate_proj", up: str = "up_proj", down: str = "down_proj") -> Names:
    """Name a router and its experts, each of which has tensors of its own; GGUF has one tensor for all."""
    hf = f"layers.{{i}}.{block}.experts.{{e}}"
    path = "layers.{i}.mlp.experts"
    return {
        **tensor(
            "layers.{i}.mlp.router.gate.weight", f"layers.{{i}}.{block}.gate.weight", "blk.{i}.ffn_gate_inp.weight"
        ),
        f"{path}.gate_up": Source(
            (Entry(f"{hf}.{gate}.weight"), Entry(f"{hf}.{up}.weight")),
            (Entry("blk.{i}.ffn_gate_exps.weight"), Entry("blk.{i}.ffn_up_exps.weight")),
        ),
        **tensor(f"{path}.down", f"{hf}.{down}.weight", "blk.{i}.ffn_down_exps.weight"),
    }


def unpaired(num_heads: int) -> Transform:
    """Undo the order in which llama.cpp keeps the rows of llama's queries and keys: pairs that turn are neighbours."""

    def transform(tensor: Tensor) -> Tensor:
        pairs = tensor.reshape(num_heads, -1, 2, *tensor.shape[1:])
        return pairs.transpose(1, 2).reshape(tensor.shape)

    return transform


def minus_one(tensor: Tensor) -> Tensor:
    """Undo what llama.cpp adds to Gemma's norms."""
    return tensor - 1
