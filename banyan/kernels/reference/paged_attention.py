"""paged_attention: attention over keys and values that lie in pages, row by row, in float32."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def paged_attention(
    q: Tensor,
    k_buffer: Tensor,
    v_buffer: Tensor,
    pages: Tensor,
    row_starts: npt.NDArray[np.int32],
    prefix_lens: npt.NDArray[np.int32],
    seq_lens: npt.NDArray[np.int32],
    *,
    page_size: int,
    scale: float,
    window: int,
    softcap: float,
    sinks: Tensor | None,
    causal: bool,
) -> Tensor:
    """Attend, one row after the other. See banyan.kernels.ops.PagedAttention for the shapes."""
    out = q.new_empty(*q.shape[:2], v_buffer.shape[-1])
    for row, length in enumerate(seq_lens.tolist()):
        begin, end = int(row_starts[row]), int(row_starts[row + 1])
        position = torch.arange(length, device=q.device)
        loc = pages[row, position // page_size].long() * page_size + position % page_size
        fed = torch.arange(end - begin, device=q.device)[:, None] + int(prefix_lens[row])
        seen = torch.ones(end - begin, length, dtype=torch.bool, device=q.device)
        if causal:
            seen &= position <= fed
        if window:
            seen &= position > fed - window
        out[begin:end] = _attend(q[begin:end], k_buffer[loc], v_buffer[loc], seen, scale, softcap, sinks)
    return out


def _attend(
    q: Tensor, k: Tensor, v: Tensor, seen: Tensor, scale: float, softcap: float, sinks: Tensor | None
) -> Tensor:
    """Attend with q [n, heads, dim] over k [m, kv_heads, dim] and v where seen [n, m] says so."""
    group = q.shape[1] // k.shape[1]
    k = k.float().repeat_interleave(group, dim=1)
    v = v.float().repeat_interleave(group, dim=1)
    scores = torch.einsum("nhd,mhd->hnm", q.float(), k) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores.masked_fill(~seen, float("-inf"))
    if sinks is not None:
        sink = sinks.float()[:, None, None].expand(-1, q.shape[0], 1)
        share = torch.softmax(torch.cat((scores, sink), dim=-1), dim=-1)[..., :-1]
    else:
        share = torch.softmax(scores, dim=-1)
    return torch.einsum("hnm,mhd->nhd", share, v).to(q.dtype)
