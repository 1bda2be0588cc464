"""Tests of banyan.kernels.reference.moe_route."""

import math

import pytest
import torch

from banyan.kernels.reference.moe_route import moe_route


def by_hand(
    logits: list[float],
    top_k: int,
    sigmoid: bool,
    norm: bool,
    scale: float,
    groups: int,
    top_groups: int,
    two: bool,
    bias: list[float],
) -> dict[int, float]:
    """Choose for one token, with lists: expert -> weight."""
    if sigmoid:
        scores = [1 / (1 + math.exp(-value)) for value in logits]
    else:
        exps = [math.exp(value) for value in logits]
        scores = [value / sum(exps) for value in exps]
    choice = [score + extra for score, extra in zip(scores, bias, strict=True)]
    size = len(logits) // groups
    worth = [sum(sorted(choice[g * size : (g + 1) * size])[-2 if two else -1 :]) for g in range(groups)]
    best = sorted(range(groups), key=lambda g: worth[g])[-top_groups:]
    allowed = [expert for expert in range(len(logits)) if expert // size in best]
    chosen = sorted(allowed, key=lambda expert: choice[expert])[-top_k:]
    total = sum(scores[expert] for expert in chosen) if norm else 1.0
    return {expert: scores[expert] / total * scale for expert in chosen}


@pytest.mark.parametrize("sigmoid", [False, True])
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize(("groups", "top_groups", "two"), [(1, 1, False), (4, 2, False), (4, 2, True), (2, 1, True)])
@pytest.mark.parametrize("biased", [False, True])
def test_it_chooses_and_weighs(
    sigmoid: bool, norm: bool, groups: int, top_groups: int, two: bool, biased: bool
) -> None:
    torch.manual_seed(0)
    logits, bias = torch.randn(20, 8) * 2, torch.randn(8) * 0.3
    weights, ids = moe_route(
        logits,
        3,
        sigmoid=sigmoid,
        norm_topk=norm,
        scale=2.5,
        num_groups=groups,
        top_groups=top_groups,
        group_by_two=two,
        score_bias=bias if biased else None,
    )
    assert weights.dtype == torch.float32
    for row in range(20):
        extra = bias.tolist() if biased else [0.0] * 8
        wanted = by_hand(logits[row].tolist(), 3, sigmoid, norm, 2.5, groups, top_groups, two, extra)
        assert dict(zip(ids[row].tolist(), weights[row].tolist(), strict=True)) == pytest.approx(wanted, rel=1e-5)
