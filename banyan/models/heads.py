"""LMHead, PoolHead and ScoreHead: from hidden states to logits, embeddings and scores."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from banyan.config.architecture import Pooling
from banyan.forward import ForwardBatch
from banyan.kernels import ops
from banyan.kernels.registry import op
from banyan.layers.linear import Linear
from banyan.layers.parameter import Layer, Place


class LMHead(Layer):
    """A score for each token of the vocabulary. `weight` is the embedding's, where the two are tied."""

    def __init__(
        self, hidden_size: int, vocab_size: int, *, softcap: float, place: Place, weight: nn.Parameter | None = None
    ) -> None:
        super().__init__()
        self._linear: ops.Linear = op("linear", place.device)
        self._softcap: ops.Softcap = op("softcap", place.device)
        self._cap = softcap
        self.weight = place.parameter(vocab_size, hidden_size) if weight is None else weight

    def forward(self, hidden: Tensor, batch: ForwardBatch) -> Tensor:
        """Return the logits of the rows that are sampled from: [S, vocab] in float32."""
        return self.logits(hidden.index_select(0, batch.sample_index))

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits of hidden states [n, hidden_size]: [n, vocab] in float32."""
        scores = self._linear(hidden, self.weight, None)
        return (self._softcap(scores, self._cap) if self._cap else scores).float()


class PoolHead(Layer):
    """An embedding of unit length for each row that is sampled from."""

    def __init__(self, pooling: Pooling) -> None:
        super().__init__()
        self._pooling = pooling

    def forward(self, hidden: Tensor, batch: ForwardBatch) -> Tensor:
        """Return [S, hidden_size] in float32."""
        return functional.normalize(pool(hidden, batch, self._pooling).float(), dim=-1)


class ScoreHead(Layer):
    """A score for each label: a classifier's, or the one score of a reward model.

    `dense` is BERT's: the first token passes another layer before it is scored.
    """

    def __init__(self, hidden_size: int, num_labels: int, *, dense: bool, place: Place) -> None:
        super().__init__()
        self._pooling: Pooling = "cls" if dense else "last"
        self.dense = Linear(hidden_size, hidden_size, bias=True, place=place) if dense else None
        self.score = Linear(hidden_size, num_labels, bias=dense, place=place)

    def forward(self, hidden: Tensor, batch: ForwardBatch) -> Tensor:
        """Return [S, num_labels] in float32."""
        pooled = pool(hidden, batch, self._pooling)
        if self.dense is not None:
            pooled = torch.tanh(self.dense.forward(pooled))
        return self.score.forward(pooled).float()


def pool(hidden: Tensor, batch: ForwardBatch, pooling: Pooling) -> Tensor:
    """Make one vector of each row that is sampled from: [S, hidden_size]."""
    if pooling == "last":
        return hidden.index_select(0, batch.sample_index)
    rows = batch.sample_rows_np
    if batch.prefix_lens_np[rows].any():
        raise ValueError(f"{pooling} pooling needs each row whole: prefixes cannot be cached, prompts not be cut")
    starts, ends = batch.row_starts_np[rows].tolist(), batch.row_starts_np[rows + 1].tolist()
    if pooling == "cls":
        return hidden[starts]
    means = [hidden[start:end].float().mean(0) for start, end in zip(starts, ends, strict=True)]
    return torch.stack(means).to(hidden.dtype) if means else hidden[:0]
