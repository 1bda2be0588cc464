"""dequantize: blocks of any GGML format to plain numbers."""

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from banyan.sources.ggml import GGMLType
from banyan.weights import blocks, superblocks

_DIRECT: Final = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_UNPACK: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "Q4_0": blocks.q4_0,
    "Q4_1": blocks.q4_1,
    "Q5_0": blocks.q5_0,
    "Q5_1": blocks.q5_1,
    "Q8_0": blocks.q8_0,
    "IQ4_NL": blocks.iq4_nl,
    "Q2_K": superblocks.q2_k,
    "Q3_K": superblocks.q3_k,
    "Q4_K": superblocks.q4_k,
    "Q5_K": superblocks.q5_k,
    "Q6_K": superblocks.q6_k,
    "IQ4_XS": superblocks.iq4_xs,
}
# So few numbers at a time stay in a core's cache, and torch does not share them out among threads: where other
# processes want the cores too, the threads of one operation wait for each other ten times longer than they work.
_CHUNK_NUMBERS: Final = 1 << 15


def dequantize(raw: Tensor, kind: GGMLType, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    """Turn the bytes of a tensor into numbers. A plain format of the same dtype is not copied."""
    if kind.name in _DIRECT:
        return raw.view(_DIRECT[kind.name]).view(shape).to(dtype)
    unpack = _UNPACK[kind.name]
    packed = raw.view(-1, kind.block_bytes)
    numbers = torch.empty(packed.shape[0], kind.block_numbers, dtype=dtype, device=raw.device)
    chunk = max(1, _CHUNK_NUMBERS // kind.block_numbers)
    for start in range(0, packed.shape[0], chunk):
        numbers[start : start + chunk] = unpack(packed[start : start + chunk])
    return numbers.view(shape)
