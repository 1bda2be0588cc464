"""VocabEmbedding: a vector for each token."""

import torch
from torch import Tensor

from banyan.kernels import ops
from banyan.kernels.registry import op
from banyan.layers.parameter import Layer, Place


class VocabEmbedding(Layer):
    """A table of vectors."""

    def __init__(self, num_rows: int, dim: int, *, place: Place, scale: float = 1.0) -> None:
        super().__init__()
        self._embedding: ops.Embedding = op("embedding", place.device)
        # Gemma was trained with the scale rounded to the model's type.
        self._scale = torch.tensor(scale, dtype=place.dtype).item()
        self.weight = place.parameter(num_rows, dim)

    def forward(self, ids: Tensor) -> Tensor:
        """Look up ids [n] -> [n, dim]."""
        found = self._embedding(ids, self.weight)
        return found if self._scale == 1.0 else found * self._scale
