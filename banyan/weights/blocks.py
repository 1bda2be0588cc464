"""Plain block formats of GGML in vectorised torch: 32 numbers share a scale, and some an offset."""

from typing import Final

import torch
from torch import Tensor

# The sixteen values of IQ4, denser near zero, where weights are.
_IQ4_VALUES: Final = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


def halves(blocks: Tensor, start: int, count: int = 1) -> Tensor:
    """Read 16-bit floats at a byte of each block: [n, bytes] -> [n, count] in float32."""
    return blocks[:, start : start + 2 * count].contiguous().view(torch.float16).float()


def nibbles(packed: Tensor) -> Tensor:
    """Unpack four-bit numbers, the low halves of all bytes first: [n, k] -> [n, 2k]."""
    return torch.cat((packed & 15, packed >> 4), dim=1)


def bits(blocks: Tensor, start: int) -> Tensor:
    """Read 32 single bits at a byte of each block, as the fifth bits of numbers: [n, bytes] -> [n, 32], 0 or 16."""
    shifts = torch.arange(8, dtype=torch.uint8, device=blocks.device)
    return (((blocks[:, start : start + 4, None] >> shifts) & 1) << 4).flatten(1)


def iq4_values(codes: Tensor) -> Tensor:
    """Turn four-bit codes into the values they stand for."""
    table = torch.tensor(_IQ4_VALUES, dtype=torch.float32, device=codes.device)
    return table[codes.int()]


def q4_0(blocks: Tensor) -> Tensor:
    """Scale, 16 bytes of nibbles around 8."""
    return (nibbles(blocks[:, 2:18]).float() - 8) * halves(blocks, 0)


def q4_1(blocks: Tensor) -> Tensor:
    """Scale, offset, 16 bytes of nibbles."""
    return nibbles(blocks[:, 4:20]).float() * halves(blocks, 0) + halves(blocks, 2)


def q5_0(blocks: Tensor) -> Tensor:
    """Scale, 32 fifth bits, 16 bytes of nibbles; around 16."""
    return ((nibbles(blocks[:, 6:22]) | bits(blocks, 2)).float() - 16) * halves(blocks, 0)


def q5_1(blocks: Tensor) -> Tensor:
    """Scale, offset, 32 fifth bits, 16 bytes of nibbles."""
    return (nibbles(blocks[:, 8:24]) | bits(blocks, 4)).float() * halves(blocks, 0) + halves(blocks, 2)


def q8_0(blocks: Tensor) -> Tensor:
    """Scale, 32 signed bytes."""
    return blocks[:, 2:34].view(torch.int8).float() * halves(blocks, 0)


def iq4_nl(blocks: Tensor) -> Tensor:
    """Scale, 16 bytes of nibbles that index a table."""
    return iq4_values(nibbles(blocks[:, 2:18])) * halves(blocks, 0)
