"""Tests of banyan.layers.moe."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from banyan.config.architecture import MoECard
from banyan.layers.moe import MoE
from banyan.layers.parameter import Place, slots
from tests.unit.layers.stubs import PLACE, fill


def card(**differences: Any) -> MoECard:
    """Describe four experts of which two are chosen."""
    plain: dict[str, Any] = {"num_experts": 4, "top_k": 2, "intermediate_size": 3, "layers": (True,)}
    return MoECard(**{**plain, **differences})


def expert(layer: MoE, number: int, x: Tensor) -> Tensor:
    """Run one expert by hand."""
    gate, up = functional.linear(x, layer.experts.gate_up[number]).chunk(2, dim=-1)
    return functional.linear(functional.silu(gate) * up, layer.experts.down[number])


def test_the_best_experts_are_mixed() -> None:
    layer = MoE(6, card(), "silu", PLACE)
    fill(layer)
    x = torch.randn(7, 6)
    found = layer.forward(x)
    for token in range(7):
        logits = functional.linear(x[token], layer.router.gate.weight)
        best = logits.topk(2)
        shares = torch.softmax(best.values, -1)
        wanted = sum(
            share * expert(layer, int(number), x[token]) for share, number in zip(shares, best.indices, strict=True)
        )
        torch.testing.assert_close(found[token], wanted)


def test_shared_experts_see_every_token() -> None:
    layer = MoE(6, card(shared_size=5), "silu", PLACE)
    fill(layer)
    x = torch.randn(7, 6)
    assert layer.shared is not None
    routed = layer.experts.forward(x, *layer.router.forward(x))
    torch.testing.assert_close(layer.forward(x), routed + layer.shared.forward(x))


def test_the_bias_of_scores_chooses_but_does_not_weigh() -> None:
    layer = MoE(6, card(scoring="sigmoid", score_bias=True, norm_topk=False, top_k=1), "silu", PLACE)
    fill(layer)
    assert layer.router.score_bias is not None
    layer.router.score_bias.copy_(torch.tensor([0.0, 0.0, 9.0, 0.0]))
    x = torch.randn(7, 6)
    weights, ids = layer.router.forward(x)
    assert (ids == 2).all()
    torch.testing.assert_close(weights[:, 0], torch.sigmoid(functional.linear(x, layer.router.gate.weight)[:, 2]))


def test_routers_are_exact_in_half_precision_models() -> None:
    layer = MoE(6, card(score_bias=True, bias=True), "clamped_swiglu", Place(torch.device("cpu"), torch.bfloat16))
    types = {path: slot.tensor.dtype for path, slot in slots(layer)}
    assert {path for path, dtype in types.items() if dtype == torch.float32} == {
        "router.gate.weight",
        "router.gate.bias",
        "router.score_bias",
    }
    fill(layer)
    assert layer.forward(torch.randn(2, 6, dtype=torch.bfloat16)).dtype == torch.bfloat16
