"""make_backend: a backend by its name."""

from collections.abc import Callable
from typing import Final

import torch

from banyan.attention.base import AttentionBackend
from banyan.attention.cpu import CpuAttention
from banyan.attention.reference import ReferenceAttention
from banyan.memory.store.device import TokenToKVPool

_BACKENDS: Final[dict[str, Callable[[TokenToKVPool, torch.device], AttentionBackend]]] = {
    "cpu": lambda pool, _: CpuAttention(pool),
    "reference": ReferenceAttention,
}


def make_backend(name: str, pool: TokenToKVPool, device: torch.device) -> AttentionBackend:
    """Make the named backend over a pool; "auto" is the best one for the device."""
    if name == "auto":
        name = device.type if device.type in _BACKENDS else "reference"
    if name not in _BACKENDS:
        raise KeyError(f"no attention backend {name!r}; there are {', '.join(_BACKENDS)}")
    return _BACKENDS[name](pool, device)
