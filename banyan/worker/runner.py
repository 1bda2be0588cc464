"""ModelRunner: one model with its KV memory and attention backend: a ForwardBatch in, hidden states and logits out."""

import torch
from torch import Tensor

from banyan.attention.base import AttentionBackend
from banyan.attention.select import make_backend
from banyan.forward import ForwardBatch
from banyan.memory.store.device import make_pool
from banyan.memory.store.layout import KVLayout
from banyan.models.heads import LMHead
from banyan.models.model import Model


class ModelRunner:
    """Holds what a forward pass needs. Makes no choices: those are in the batch."""

    def __init__(self, model: Model, *, num_pages: int, page_size: int, backend: str, device: torch.device) -> None:
        self.model = model
        self.device = device
        self.pool = make_pool(layout_of(model, page_size), num_pages, device)
        self.attention: AttentionBackend = make_backend(backend, self.pool, device)

    @property
    def generates(self) -> bool:
        """Tell whether the model puts out tokens, not vectors."""
        return isinstance(self.model.head, LMHead)

    @torch.inference_mode()
    def forward(self, batch: ForwardBatch) -> Tensor:
        """Return hidden states [T, hidden_size]."""
        self.attention.plan(batch)
        return self.model.forward(batch, self.attention)

    @torch.inference_mode()
    def head(self, hidden: Tensor, batch: ForwardBatch) -> Tensor:
        """Return what the head makes of the rows that are sampled from: logits, embeddings or scores [S, n]."""
        if self.model.head is None:
            raise ValueError("this stage has no head")
        return self.model.head.forward(hidden, batch)

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits of any hidden states [n, hidden_size]."""
        if not isinstance(self.model.head, LMHead):
            raise ValueError("this model has no logits")
        return self.model.head.logits(hidden)


def layout_of(model: Model, page_size: int) -> KVLayout:
    """Say what a token leaves in KV memory."""
    spec = model.spec
    return KVLayout(
        num_layers=len(model.body.layer_range),
        num_kv_heads=spec.kv_heads,
        key_dim=spec.key_dim,
        value_dim=spec.value_dim,
        page_size=page_size,
        dtype=next(model.body.parameters()).dtype,
        latent=spec.latent,
    )
