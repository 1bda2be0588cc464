"""rope: turn pairs of numbers of each head by an angle that grows with the position."""

import torch
from torch import Tensor


def rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> tuple[Tensor, Tensor]:
    """Turn the first rotary_dim numbers of each head; the rest passes."""
    return _turn(q, cos, sin, interleaved), _turn(k, cos, sin, interleaved)


def _turn(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    half = cos.shape[-1]
    cos, sin = cos[:, None, :], sin[:, None, :]
    turning, rest = x[..., : 2 * half], x[..., 2 * half :]
    if interleaved:
        a, b = turning[..., 0::2], turning[..., 1::2]
        turned = torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)
    else:
        a, b = turning[..., :half], turning[..., half:]
        turned = torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
    return torch.cat((turned, rest), dim=-1) if rest.shape[-1] else turned
