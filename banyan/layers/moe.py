"""MoE: a router, experts, and experts that all tokens share."""

from torch import Tensor

from banyan.config.architecture import Activation, MoECard
from banyan.kernels import ops
from banyan.kernels.registry import op
from banyan.layers.activation import gated
from banyan.layers.linear import Linear
from banyan.layers.mlp import GatedMLP
from banyan.layers.parameter import Layer, Parts, Place


class Router(Layer):
    """Chooses experts for each token. In float32: a close choice must not turn on rounding."""

    def __init__(self, hidden_size: int, card: MoECard, place: Place) -> None:
        super().__init__()
        self._route: ops.MoeRoute = op("moe_route", place.device)
        self._card = card
        self.gate = Linear(hidden_size, card.num_experts, bias=card.bias, place=place.wide())
        self.score_bias = place.wide().parameter(card.num_experts) if card.score_bias else None

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return weights and expert ids, each [n, top_k], for x [n, hidden]."""
        card = self._card
        return self._route(
            self.gate.forward(x.float()),
            card.top_k,
            sigmoid=card.scoring == "sigmoid",
            norm_topk=card.norm_topk,
            scale=card.scale,
            num_groups=card.num_groups,
            top_groups=card.top_groups,
            group_by_two=card.group_by_two,
            score_bias=self.score_bias,
        )


class Experts(Layer):
    """Feed-forward blocks, one behind the other in the same tensors."""

    def __init__(self, hidden_size: int, card: MoECard, activation: Activation, place: Place) -> None:
        super().__init__()
        self._run: ops.MoeExperts = op("moe_experts", place.device)
        self._activate = gated(activation, place, alpha=card.swiglu_alpha, limit=card.swiglu_limit)
        experts, inner = card.num_experts, card.intermediate_size
        self.gate_up = place.parameter(experts, 2 * inner, hidden_size)
        self.down = place.parameter(experts, hidden_size, inner)
        self.gate_up_bias = place.parameter(experts, 2 * inner) if card.bias else None
        self.down_bias = place.parameter(experts, hidden_size) if card.bias else None
        self.parts = {"gate_up": Parts(1, (inner, inner)), "gate_up_bias": Parts(1, (inner, inner))}

    def forward(self, x: Tensor, weights: Tensor, ids: Tensor) -> Tensor:
        """Run x [n, hidden] through the chosen experts."""
        return self._run(x, weights, ids, self.gate_up, self.down, self._activate, self.gate_up_bias, self.down_bias)


class MoE(Layer):
    """A feed-forward block of which each token uses a part."""

    def __init__(self, hidden_size: int, card: MoECard, activation: Activation, place: Place) -> None:
        super().__init__()
        self.router = Router(hidden_size, card, place)
        self.experts = Experts(hidden_size, card, activation, place)
        self.shared = (
            GatedMLP(hidden_size, card.shared_size, activation, bias=False, place=place) if card.shared_size else None
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map x [n, hidden] -> [n, hidden]."""
        weights, ids = self.router.forward(x)
        routed = self.experts.forward(x, weights, ids)
        return routed if self.shared is None else routed + self.shared.forward(x)
