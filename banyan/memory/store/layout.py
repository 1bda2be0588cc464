"""KVLayout: the shape and size of what the KV cache keeps of a token."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class KVLayout:
    """Keys and values of a token in each layer. With `latent`, values are the leading numbers of the keys (MLA)."""

    num_layers: int
    num_kv_heads: int
    key_dim: int
    value_dim: int
    page_size: int
    dtype: torch.dtype
    latent: bool = False

    @property
    def bytes_per_token(self) -> int:
        """Count the bytes of a token, over all layers."""
        numbers = self.key_dim if self.latent else self.key_dim + self.value_dim
        return self.num_layers * self.num_kv_heads * numbers * self.dtype.itemsize

    @property
    def bytes_per_page(self) -> int:
        """Count the bytes of a page, over all layers."""
        return self.page_size * self.bytes_per_token
