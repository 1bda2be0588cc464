"""Encoder: BERT's, where every token sees its whole row."""

from torch import Tensor, nn

from banyan.attention.base import AttentionBackend
from banyan.forward import ForwardBatch
from banyan.layers.attention import RadixAttention
from banyan.layers.embedding import VocabEmbedding
from banyan.layers.mlp import MLP
from banyan.layers.norm import LayerNorm
from banyan.layers.parameter import Layer, Place
from banyan.models.spec import EncoderSpec


class EncoderLayer(Layer):
    """Attention and feed-forward, each followed by a norm."""

    def __init__(self, spec: EncoderSpec, index: int, place: Place) -> None:
        super().__init__()
        mlp = spec.mlp
        self.attn = RadixAttention(spec.hidden_size, spec.attention, index, place)
        self.attn_norm = LayerNorm(spec.hidden_size, eps=spec.norm_eps, place=place)
        self.mlp = MLP(spec.hidden_size, mlp.inner_size, mlp.activation, bias=mlp.bias, place=place)
        self.mlp_norm = LayerNorm(spec.hidden_size, eps=spec.norm_eps, place=place)

    def forward(self, hidden: Tensor, attention: AttentionBackend) -> Tensor:
        """Map hidden [n, hidden_size] -> the same."""
        hidden = self.attn_norm.forward(hidden + self.attn.forward(hidden, (), attention))
        return self.mlp_norm.forward(hidden + self.mlp.forward(hidden))


class Encoder(Layer):
    """An encoder. All tokens are of type 0; a row must be fed whole, without a cached prefix."""

    def __init__(self, spec: EncoderSpec, place: Place) -> None:
        super().__init__()
        self.spec = spec
        self.layer_range = range(spec.num_layers)
        self.embed = VocabEmbedding(spec.vocab_size, spec.hidden_size, place=place)
        self.positions = VocabEmbedding(spec.num_positions, spec.hidden_size, place=place)
        self.types = VocabEmbedding(spec.num_token_types, spec.hidden_size, place=place)
        self.embed_norm = LayerNorm(spec.hidden_size, eps=spec.norm_eps, place=place)
        self.stack = [EncoderLayer(spec, index, place) for index in self.layer_range]
        self.layers = nn.ModuleDict({str(index): layer for index, layer in enumerate(self.stack)})

    def forward(self, batch: ForwardBatch, attention: AttentionBackend, hidden: Tensor | None = None) -> Tensor:
        """Return hidden states [T, hidden_size]. There is one stage only, so nothing comes from another."""
        del hidden
        if batch.prefix_lens_np.any():
            raise ValueError("an encoder needs each row whole: prefixes cannot be cached, prompts not be cut")
        embedded = self.embed.forward(batch.input_ids) + self.types.weight[0] + self.positions.forward(batch.positions)
        hidden = self.embed_norm.forward(embedded)
        for layer in self.stack:
            hidden = layer.forward(hidden, attention)
        return hidden
