"""moe_route: choose experts for each token and weigh them."""

import torch
from torch import Tensor


def moe_route(
    logits: Tensor,
    top_k: int,
    *,
    sigmoid: bool,
    norm_topk: bool,
    scale: float,
    num_groups: int,
    top_groups: int,
    group_by_two: bool,
    score_bias: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return the weights, in float32, and the numbers of the chosen experts."""
    logits = logits.float()
    scores = torch.sigmoid(logits) if sigmoid else torch.softmax(logits, dim=-1)
    choice = scores if score_bias is None else scores + score_bias
    if num_groups > 1:
        choice = _best_groups(choice, num_groups, top_groups, group_by_two)
    ids = torch.topk(choice, top_k, dim=-1).indices
    weights = scores.gather(-1, ids)
    if norm_topk:
        # Sigmoids may all be tiny; the addend keeps their sum from being zero and is lost in any other.
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
    return weights * scale, ids


def _best_groups(choice: Tensor, num_groups: int, top_groups: int, group_by_two: bool) -> Tensor:
    """Leave only the experts of the best groups in the choice."""
    grouped = choice.view(choice.shape[0], num_groups, choice.shape[1] // num_groups)
    worth = grouped.topk(2, dim=-1).values.sum(-1) if group_by_two else grouped.amax(-1)
    best = torch.zeros_like(worth, dtype=torch.bool).scatter_(-1, worth.topk(top_groups, dim=-1).indices, True)
    return grouped.masked_fill(~best.unsqueeze(-1), float("-inf")).flatten(-2)
