"""store_kv: write new rows into a KV buffer."""

from torch import Tensor


def store_kv(buffer: Tensor, loc: Tensor, rows: Tensor) -> None:
    """Write rows into the buffer at their locations."""
    buffer.index_copy_(0, loc, rows.to(buffer.dtype))
