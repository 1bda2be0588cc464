"""Model: a stage of a network, and its head where it is the last one."""

from torch import Tensor

from banyan.attention.base import AttentionBackend
from banyan.config.architecture import Architecture
from banyan.forward import ForwardBatch
from banyan.layers.parameter import Layer, Slot, slots
from banyan.models.decoder import Decoder
from banyan.models.encoder import Encoder
from banyan.models.heads import LMHead, PoolHead, ScoreHead
from banyan.models.names import Family
from banyan.models.spec import DecoderSpec, EncoderSpec


class Model(Layer):
    """What a worker runs: `forward` gives hidden states, `head.forward` makes logits, embeddings or scores of them."""

    def __init__(
        self,
        family: Family,
        shape: Architecture,
        body: Decoder | Encoder,
        head: LMHead | PoolHead | ScoreHead | None,
    ) -> None:
        super().__init__()
        self.family = family
        self.shape = shape
        self.body = body
        self.head = head

    @property
    def spec(self) -> DecoderSpec | EncoderSpec:
        """Return the description that the network was built from."""
        return self.body.spec

    def forward(self, batch: ForwardBatch, attention: AttentionBackend, hidden: Tensor | None = None) -> Tensor:
        """Return hidden states [T, hidden_size]; `hidden` is what the stage before this one returned."""
        return self.body.forward(batch, attention, hidden)

    def slots(self) -> dict[str, Slot]:
        """List the parameters of this stage by path. A head that shares the embedding's weight has none."""
        found = dict(slots(self.body))
        held = {id(slot.tensor) for slot in found.values()}
        if self.head is not None:
            found.update((f"head.{path}", slot) for path, slot in slots(self.head) if id(slot.tensor) not in held)
        return found
