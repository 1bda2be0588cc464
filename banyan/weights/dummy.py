"""Made-up weights: the same for a seed and a name, in whatever order and on whatever device they are filled."""

import hashlib
import math
from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor

_POOL_NUMBERS: Final = 1_000_003  # a prime: rows of common widths do not repeat in step with it


def fill_dummy(parameters: Mapping[str, Tensor], seed: int = 0) -> None:
    """Fill parameters with small numbers around 0, and those of norms (vectors that are no biases) around 1.

    Drawing billions of numbers would take minutes, so all are copies of one pool, each from a place of its own.
    """
    generator = torch.Generator().manual_seed(seed)
    pool = torch.randn(_POOL_NUMBERS, generator=generator)
    for name, parameter in parameters.items():
        digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
        _fill(parameter, pool, int.from_bytes(digest, "little") % _POOL_NUMBERS)
        # Sums over a row keep their size whatever the width of the model.
        parameter.mul_(0.5 / math.sqrt(parameter.shape[-1]) if parameter.dim() > 1 else 0.02)
        if parameter.dim() == 1 and not name.endswith("bias"):
            parameter.add_(1)


def _fill(parameter: Tensor, pool: Tensor, start: int) -> None:
    flat = parameter.view(-1)
    done = 0
    while done < flat.numel():
        piece = pool[start : start + flat.numel() - done]
        flat[done : done + piece.numel()] = piece.to(flat.device)
        done, start = done + piece.numel(), 0
