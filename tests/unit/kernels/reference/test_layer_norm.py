"""Tests of banyan.kernels.reference.layer_norm."""

import torch

from banyan.kernels.reference.layer_norm import layer_norm


def test_it_centres_and_scales() -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(6, 20) * 2 + 5, torch.randn(20), torch.randn(20)
    deviation = x - x.mean(-1, keepdim=True)
    wanted = deviation / (deviation.square().mean(-1, keepdim=True) + 1e-12).sqrt() * weight + bias
    torch.testing.assert_close(layer_norm(x, weight, bias, 1e-12), wanted)
