"""op(name, device): the implementation of an op for a device. A reference always exists."""

import importlib
from typing import Any, Final

import torch

# Which devices have an op of their own, beside the reference. The function has the op's name and lies in a module of
# that name: banyan.kernels.<device>.<op>.<op>.
OPS: Final[dict[str, tuple[str, ...]]] = {
    "clamped_swiglu": (),
    "embedding": (),
    "fused_add_rms_norm": (),
    "gelu": (),
    "gelu_and_mul": (),
    "layer_norm": (),
    "linear": (),
    "moe_experts": (),
    "moe_route": (),
    "paged_attention": (),
    "rms_norm": (),
    "rope": (),
    "silu_and_mul": (),
    "softcap": (),
    "store_kv": (),
}


def op(name: str, device: torch.device) -> Any:
    """Return an op; banyan.kernels.ops has its signature. Layers ask in their constructor, never in a forward."""
    if name not in OPS:
        raise KeyError(f"no op {name!r}; there are {', '.join(OPS)}")
    place = device.type if device.type in OPS[name] else "reference"
    # Modules of other devices may need libraries that are not here, so only what is asked for is imported.
    return getattr(importlib.import_module(f"banyan.kernels.{place}.{name}"), name)
