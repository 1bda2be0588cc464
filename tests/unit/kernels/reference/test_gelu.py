"""Tests of banyan.kernels.reference.gelu."""

import math

import torch

from banyan.kernels.reference.gelu import gelu


def test_it_is_exact_or_nearly_so() -> None:
    x = torch.linspace(-6, 6, 41)
    exact = x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))
    torch.testing.assert_close(gelu(x, tanh=False), exact)
    torch.testing.assert_close(gelu(x, tanh=True), exact, rtol=0, atol=1e-3)
    assert not torch.equal(gelu(x, tanh=True), gelu(x, tanh=False))
