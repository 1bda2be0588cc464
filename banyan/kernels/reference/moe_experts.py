"""moe_experts: run each token through its experts."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional


def moe_experts(
    x: Tensor,
    weights: Tensor,
    ids: Tensor,
    gate_up: Tensor,
    down: Tensor,
    activate: Callable[[Tensor], Tensor],
    gate_up_bias: Tensor | None,
    down_bias: Tensor | None,
) -> Tensor:
    """Add up, for each token, the weighted outputs of its experts."""
    num_experts, top_k = gate_up.shape[0], ids.shape[1]
    order = torch.argsort(ids.flatten(), stable=True)  # pairs of token and choice, expert by expert
    counts = torch.bincount(ids.flatten(), minlength=num_experts).tolist()
    total = torch.zeros_like(x, dtype=torch.float32)
    begin = 0
    for expert, count in enumerate(counts):
        if count == 0:
            continue
        pairs = order[begin : begin + count]
        begin += count
        tokens = pairs // top_k
        inner = functional.linear(x[tokens], gate_up[expert], None if gate_up_bias is None else gate_up_bias[expert])
        outer = functional.linear(activate(inner), down[expert], None if down_bias is None else down_bias[expert])
        total.index_add_(0, tokens, outer.float() * weights.flatten()[pairs, None])
    return total.to(x.dtype)
