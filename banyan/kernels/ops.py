"""The signature of each op. A layer annotates what it takes from the registry with these."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from torch import Tensor

from banyan.wire.base import I32

Activate: TypeAlias = Callable[[Tensor], Tensor]  # an activation with its settings


class Linear(Protocol):
    """linear: x [n, in], weight [out, in] -> [n, out]."""

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Multiply and add."""


class Embedding(Protocol):
    """embedding: ids [n], weight [vocab, dim] -> [n, dim]."""

    def __call__(self, ids: Tensor, weight: Tensor) -> Tensor:
        """Look rows up."""


class RmsNorm(Protocol):
    """rms_norm: x [..., dim], weight [dim] -> [..., dim]."""

    def __call__(self, x: Tensor, weight: Tensor, eps: float, plus_one: bool) -> Tensor:
        """Divide by the root mean square, multiply by the weight (or one plus it)."""


class FusedAddRmsNorm(Protocol):
    """fused_add_rms_norm: like rms_norm of x + residual; also returns that sum."""

    def __call__(
        self, x: Tensor, residual: Tensor, weight: Tensor, eps: float, plus_one: bool
    ) -> tuple[Tensor, Tensor]:
        """Return the normalised sum and the sum."""


class LayerNorm(Protocol):
    """layer_norm: x [..., dim], weight [dim], bias [dim] -> [..., dim]."""

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        """Normalise to mean 0 and variance 1, then scale and shift."""


class Rope(Protocol):
    """rope: q [n, heads, dim], k [n, kv_heads, dim], cos and sin [n, rotary_dim / 2] -> turned q and k."""

    def __call__(self, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> tuple[Tensor, Tensor]:
        """Turn the first rotary_dim numbers of each head."""


class SiluAndMul(Protocol):
    """silu_and_mul: x [..., 2 * dim] -> [..., dim]."""

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply the second half by the SiLU of the first."""


class GeluAndMul(Protocol):
    """gelu_and_mul: x [..., 2 * dim] -> [..., dim]."""

    def __call__(self, x: Tensor, tanh: bool) -> Tensor:
        """Multiply the second half by the GELU of the first, exact or in its tanh form."""


class Gelu(Protocol):
    """gelu: x -> the same shape."""

    def __call__(self, x: Tensor, tanh: bool) -> Tensor:
        """Multiply by the normal distribution's share below, exact or in its tanh form."""


class ClampedSwiglu(Protocol):
    """clamped_swiglu: x [..., 2 * dim] -> [..., dim]."""

    def __call__(self, x: Tensor, alpha: float, limit: float) -> Tensor:
        """Gate with x * sigmoid(alpha * x), all clamped to the limit, and one added to what is gated."""


class Softcap(Protocol):
    """softcap: x -> cap * tanh(x / cap)."""

    def __call__(self, x: Tensor, cap: float) -> Tensor:
        """Bend values so that none passes the cap."""


class StoreKV(Protocol):
    """store_kv: buffer [tokens, heads, dim], loc [n], rows [n, heads, dim]."""

    def __call__(self, buffer: Tensor, loc: Tensor, rows: Tensor) -> None:
        """Write rows into the buffer at their locations."""


class MoeRoute(Protocol):
    """moe_route: router logits [n, experts] -> weights [n, top_k] float32 and expert ids [n, top_k] int64."""

    def __call__(
        self,
        logits: Tensor,
        top_k: int,
        *,
        sigmoid: bool,
        norm_topk: bool,
        scale: float,
        num_groups: int,
        top_groups: int,
        group_by_two: bool,
        score_bias: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Choose experts for each token and weigh them."""


class MoeExperts(Protocol):
    """moe_experts: x [n, dim] through the chosen experts, added up by weight -> [n, dim].

    gate_up [experts, 2 * inner, dim], down [experts, dim, inner]; biases [experts, 2 * inner] and [experts, dim].
    """

    def __call__(
        self,
        x: Tensor,
        weights: Tensor,
        ids: Tensor,
        gate_up: Tensor,
        down: Tensor,
        activate: Activate,
        gate_up_bias: Tensor | None,
        down_bias: Tensor | None,
    ) -> Tensor:
        """Run each token through its experts."""


class PagedAttention(Protocol):
    """paged_attention: q [n, heads, dim] over KV buffers [tokens, kv_heads, dim] -> [n, heads, value_dim].

    Row r feeds tokens row_starts[r] : row_starts[r + 1]; they stand at positions prefix_lens[r] and on. Its keys at
    positions 0 : seq_lens[r] lie in the pages pages[r]. Its own new keys are in the buffers already.
    """

    def __call__(
        self,
        q: Tensor,
        k_buffer: Tensor,
        v_buffer: Tensor,
        pages: Tensor,
        row_starts: I32,
        prefix_lens: I32,
        seq_lens: I32,
        *,
        page_size: int,
        scale: float,
        window: int,
        softcap: float,
        sinks: Tensor | None,
        causal: bool,
    ) -> Tensor:
        """Attend."""
