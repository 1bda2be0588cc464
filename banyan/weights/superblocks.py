"""K-quants of GGML in vectorised torch: 256 numbers in groups, whose scales are quantised in their turn."""

import torch
from torch import Tensor

from banyan.weights.blocks import halves, iq4_values, nibbles


def q2_k(blocks: Tensor) -> Tensor:
    """16 scales and offsets of four bits, 64 bytes of two-bit numbers, scale, offset."""
    scales = blocks[:, :16]
    scale = (scales & 15).float() * halves(blocks, 80)
    offset = (scales >> 4).float() * halves(blocks, 82)
    numbers = _pairs(blocks[:, 16:80])
    return _grouped(numbers, 16).mul_(scale[:, :, None]).sub_(offset[:, :, None]).flatten(1)


def q3_k(blocks: Tensor) -> Tensor:
    """32 bytes of third bits, 64 bytes of two-bit numbers, 16 scales of six bits, scale."""
    low = _pairs(blocks[:, 32:96])
    # The third bit is inverted: where it is not set, four is taken away.
    high = ((blocks[:, None, :32] >> _shifts(blocks, 8)) & 1).flatten(1)
    numbers = low.view(torch.int8) + (high.view(torch.int8) << 2) - 4
    packed = blocks[:, 96:108]
    small = nibbles(packed[:, :8])
    large = (packed[:, None, 8:12] >> (2 * _shifts(blocks, 4))).flatten(1) & 3
    scale = ((small | (large << 4)).float() - 32) * halves(blocks, 108)
    return _grouped(numbers, 16).mul_(scale[:, :, None]).flatten(1)


def q4_k(blocks: Tensor) -> Tensor:
    """Scale, offset, 8 scales and offsets of six bits, 128 bytes of nibbles."""
    scale, offset = _scales_and_offsets(blocks)
    numbers = _nibbles_by_64(blocks[:, 16:144])
    return _grouped(numbers, 8).mul_(scale).sub_(offset).flatten(1)


def q5_k(blocks: Tensor) -> Tensor:
    """Scale, offset, 8 scales and offsets of six bits, 32 bytes of fifth bits, 128 bytes of nibbles."""
    scale, offset = _scales_and_offsets(blocks)
    high = (blocks[:, None, 16:48] >> _shifts(blocks, 8)) & 1
    numbers = _nibbles_by_64(blocks[:, 48:176]) | (high << 4).flatten(1)
    return _grouped(numbers, 8).mul_(scale).sub_(offset).flatten(1)


def q6_k(blocks: Tensor) -> Tensor:
    """128 bytes of low nibbles, 64 bytes of two high bits, 16 scales of a byte, scale."""
    low = blocks[:, :128].reshape(-1, 2, 1, 64)
    low = torch.cat((low & 15, low >> 4), dim=2).flatten(1)
    numbers = (low | (_pairs(blocks[:, 128:192]) << 4)).view(torch.int8) - 32
    scale = blocks[:, 192:208].view(torch.int8).float() * halves(blocks, 208)
    return _grouped(numbers, 16).mul_(scale[:, :, None]).flatten(1)


def iq4_xs(blocks: Tensor) -> Tensor:
    """Scale, 8 scales of six bits in two places, 128 bytes of nibbles that index a table."""
    high = (blocks[:, 2:4, None] >> (2 * _shifts(blocks, 4).flatten())).flatten(1) & 3
    low = torch.stack((blocks[:, 4:8] & 15, blocks[:, 4:8] >> 4), dim=2).flatten(1)
    scale = ((low | (high << 4)).float() - 32) * halves(blocks, 0)
    packed = blocks[:, 8:136].reshape(-1, 8, 1, 16)
    codes = torch.cat((packed & 15, packed >> 4), dim=2).flatten(1)
    return _grouped(iq4_values(codes), 8).mul_(scale[:, :, None]).flatten(1)


def _shifts(blocks: Tensor, count: int) -> Tensor:
    return torch.arange(count, dtype=torch.uint8, device=blocks.device)[:, None]


def _grouped(numbers: Tensor, groups: int) -> Tensor:
    """Split [n, 256] into [n, groups, 256 / groups] floats."""
    return numbers.float().view(numbers.shape[0], groups, -1)


def _pairs(packed: Tensor) -> Tensor:
    """Unpack two-bit numbers: each 32 bytes hold 128 numbers, the lowest bits of all bytes first."""
    shifted = packed.reshape(-1, packed.shape[1] // 32, 1, 32) >> (2 * _shifts(packed, 4))
    return (shifted & 3).flatten(1)


def _nibbles_by_64(packed: Tensor) -> Tensor:
    """Unpack nibbles: each 32 bytes hold 64 numbers, the low halves of all bytes first."""
    halved = packed.reshape(-1, 4, 1, 32)
    return torch.cat((halved & 15, halved >> 4), dim=2).flatten(1)


def _scales_and_offsets(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Read eight scales and eight offsets: [n, 8, 1] each.

    The first four of each have a byte of their own, of which they use six bits; the last four have a nibble in the
    third group of bytes and two bits, the ones that the first four do not use.
    """
    first, second, third = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    scale = torch.cat((first & 63, (third & 15) | ((first >> 6) << 4)), dim=1)
    offset = torch.cat((second & 63, (third >> 4) | ((second >> 6) << 4)), dim=1)
    return (scale.float() * halves(blocks, 0))[:, :, None], (offset.float() * halves(blocks, 2))[:, :, None]
