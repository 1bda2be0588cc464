"""Decoder: dense or with experts, built from a DecoderSpec for a range of its layers."""

from collections.abc import Sequence

from torch import Tensor, nn

from banyan.attention.base import AttentionBackend
from banyan.forward import ForwardBatch
from banyan.layers.attention import RadixAttention
from banyan.layers.embedding import VocabEmbedding
from banyan.layers.mla import MLASpec, MLAttention
from banyan.layers.mlp import GatedMLP
from banyan.layers.moe import MoE
from banyan.layers.norm import RMSNorm
from banyan.layers.parameter import Layer, Place
from banyan.layers.rope import Angles, RotaryEmbedding
from banyan.models.spec import DecoderSpec, LayerSpec, MoESpec


class DecoderLayer(Layer):
    """Attention and feed-forward, each behind a norm and (in some families) before another.

    The residual travels beside the hidden state, so that adding it and the next norm are one op.
    """

    def __init__(self, model: DecoderSpec, spec: LayerSpec, index: int, place: Place) -> None:
        super().__init__()
        self.attn_norm = _norm(model, place)
        self.attn = _attention(model, spec, index, place)
        self.mlp_norm = _norm(model, place)
        self.mlp = _mlp(model, spec, place)
        self.post_attn_norm = _norm(model, place) if model.post_norms else None
        self.post_mlp_norm = _norm(model, place) if model.post_norms else None

    def forward(
        self, hidden: Tensor, residual: Tensor | None, angles: Sequence[Angles], attention: AttentionBackend
    ) -> tuple[Tensor, Tensor]:
        """Return the output and the residual that is still to be added to it."""
        if residual is None:
            hidden, residual = self.attn_norm.forward(hidden), hidden
        else:
            hidden, residual = self.attn_norm.add(hidden, residual)
        hidden = self.attn.forward(hidden, angles, attention)
        if self.post_attn_norm is not None:
            hidden = self.post_attn_norm.forward(hidden)
        hidden, residual = self.mlp_norm.add(hidden, residual)
        hidden = self.mlp.forward(hidden)
        if self.post_mlp_norm is not None:
            hidden = self.post_mlp_norm.forward(hidden)
        return hidden, residual


class Decoder(Layer):
    """Layers first to last - 1 of a decoder. The first stage embeds, the last one has the final norm."""

    def __init__(self, spec: DecoderSpec, layers: range, context_length: int, place: Place) -> None:
        super().__init__()
        self.spec = spec
        self.layer_range = layers
        self.embed = (
            VocabEmbedding(spec.vocab_size, spec.hidden_size, place=place, scale=spec.embed_scale)
            if layers.start == 0
            else None
        )
        # Keyed by number, so that a parameter has the same path in every stage.
        self.layers = nn.ModuleDict(
            {str(i): DecoderLayer(spec, spec.layers[i], index, place) for index, i in enumerate(layers)}
        )
        self.stack = [layer for layer in self.layers.values() if isinstance(layer, DecoderLayer)]
        self.norm = _norm(spec, place) if layers.stop == len(spec.layers) else None
        self.ropes = [RotaryEmbedding(rope, context_length, place) for rope in spec.ropes]

    def forward(self, batch: ForwardBatch, attention: AttentionBackend, hidden: Tensor | None = None) -> Tensor:
        """Return hidden states [T, hidden_size]; `hidden` is what the stage before this one returned."""
        if self.embed is not None:
            hidden = self.embed.forward(batch.input_ids)
        if hidden is None:
            raise ValueError("a later stage needs the hidden states of the one before it")
        angles = [rope.forward(batch.positions) for rope in self.ropes]
        residual: Tensor | None = None
        for layer in self.stack:
            hidden, residual = layer.forward(hidden, residual, angles, attention)
        if residual is None:
            return hidden if self.norm is None else self.norm.forward(hidden)
        if self.norm is None:
            return hidden + residual
        return self.norm.add(hidden, residual)[0]


def _norm(model: DecoderSpec, place: Place) -> RMSNorm:
    return RMSNorm(model.hidden_size, eps=model.norm_eps, plus_one=model.norm_plus_one, place=place)


def _attention(model: DecoderSpec, spec: LayerSpec, index: int, place: Place) -> RadixAttention | MLAttention:
    if isinstance(spec.attention, MLASpec):
        return MLAttention(model.hidden_size, spec.attention, index, place)
    return RadixAttention(model.hidden_size, spec.attention, index, place)


def _mlp(model: DecoderSpec, spec: LayerSpec, place: Place) -> GatedMLP | MoE:
    mlp = spec.mlp
    if isinstance(mlp, MoESpec):
        return MoE(model.hidden_size, mlp.card, mlp.activation, place)
    return GatedMLP(model.hidden_size, mlp.inner_size, mlp.activation, bias=mlp.bias, place=place)
