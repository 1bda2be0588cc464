"""Tests of banyan.kernels.reference.moe_experts."""

import pytest
import torch
from torch import Tensor

from banyan.kernels.reference.moe_experts import moe_experts


def activate(x: Tensor) -> Tensor:
    """Gate the second half with the first."""
    gate, up = x.chunk(2, dim=-1)
    return torch.relu(gate) * up


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("num_tokens", [0, 1, 9])
def test_each_token_passes_its_experts(biased: bool, num_tokens: int) -> None:
    torch.manual_seed(0)
    experts, dim, inner, top_k = 5, 6, 4, 2
    x, gate_up, down = (
        torch.randn(num_tokens, dim),
        torch.randn(experts, 2 * inner, dim),
        torch.randn(experts, dim, inner),
    )
    gate_up_bias, down_bias = torch.randn(experts, 2 * inner) * biased, torch.randn(experts, dim) * biased
    ids = torch.stack([torch.randperm(experts - 1)[:top_k] for _ in range(num_tokens)] or [torch.zeros(2).long()])
    ids, weights = ids[:num_tokens], torch.rand(num_tokens, top_k)
    wanted = torch.zeros(num_tokens, dim)
    for token in range(num_tokens):
        for expert, weight in zip(ids[token].tolist(), weights[token], strict=True):
            hidden = activate(gate_up[expert] @ x[token] + gate_up_bias[expert])
            wanted[token] += weight * (down[expert] @ hidden + down_bias[expert])
    biases = (gate_up_bias, down_bias) if biased else (None, None)
    torch.testing.assert_close(moe_experts(x, weights, ids, gate_up, down, activate, *biases), wanted)
