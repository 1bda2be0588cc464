"""CpuAttention: rows of like shape are attended together, with torch's fused attention where it can do the layer."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from banyan.attention.base import AttentionLayer
from banyan.forward import ForwardBatch
from banyan.memory.store.device import TokenToKVPool

_MAX_QUERIES = 256  # a longer row is cut: later parts see more keys, and a mask stays small
_MAX_KEYS = 1 << 16  # gathered at a time


class _Piece(NamedTuple):
    """Some of a row's new tokens, and the keys that they see between them."""

    row: int
    token: int  # index of its first token in the batch
    num_queries: int
    position: int  # of the first token in its sequence
    first_key: int
    num_keys: int


@dataclass(frozen=True, slots=True)
class _Group:
    """B pieces of M queries each, with up to N keys."""

    tokens: Tensor  # [B * M] int64
    num_pieces: int
    loc: Tensor  # [B * N] int64: where the keys are; 0, where nothing is, for those that a shorter piece has not
    mask: Tensor  # [B, 1, M, N]: what is added to the scores


class CpuAttention:
    """Attention for a CPU. What depends on the batch alone is made once a step for each kind of layer."""

    def __init__(self, pool: TokenToKVPool) -> None:
        self._pool = pool
        self._batch: ForwardBatch | None = None
        self._groups: dict[tuple[int, bool], list[_Group]] = {}

    def plan(self, batch: ForwardBatch) -> None:
        """Take the batch. Groups follow when the first layer with a given window asks for them."""
        self._batch = batch
        self._groups = {}

    def run(self, q: Tensor, k: Tensor, v: Tensor, layer: AttentionLayer) -> Tensor:
        """Write all keys and values, then attend."""
        batch = self._batch
        if batch is None:
            raise RuntimeError("run() before plan()")
        self._pool.set_kv_buffer(layer.index, batch.out_loc, k, v)
        kind = (layer.window, layer.causal)
        if kind not in self._groups:
            self._groups[kind] = [_group(batch, pieces, *kind, q.dtype) for pieces in _bundles(batch, *kind)]
        keys, values = self._pool.get_key_buffer(layer.index), self._pool.get_value_buffer(layer.index)
        fused = layer.softcap == 0 and layer.sinks is None and layer.key_dim == layer.value_dim
        attend = _attend_fused if fused else _attend_plainly
        out = q.new_empty(q.shape[0], layer.num_heads, layer.value_dim)
        for group in self._groups[kind]:
            size = (group.num_pieces, -1)
            query = q.index_select(0, group.tokens).view(*size, layer.num_heads, layer.key_dim)
            key = keys.index_select(0, group.loc).view(*size, layer.num_kv_heads, layer.key_dim)
            value = values.index_select(0, group.loc).view(*size, layer.num_kv_heads, layer.value_dim)
            seen = attend(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), group.mask, layer)
            out.index_copy_(0, group.tokens, seen.transpose(1, 2).flatten(0, 1))
        return out


def _pieces(batch: ForwardBatch, window: int, causal: bool) -> Iterator[_Piece]:
    starts, lengths = batch.prefix_lens_np.tolist(), batch.seq_lens_np.tolist()
    tokens = batch.row_starts_np.tolist()
    for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        for position in range(start, length, _MAX_QUERIES):
            end = min(position + _MAX_QUERIES, length)
            first_key = max(0, position - window + 1) if window else 0
            last_key = end if causal else length
            yield _Piece(row, tokens[row] + position - start, end - position, position, first_key, last_key - first_key)


def _bundles(batch: ForwardBatch, window: int, causal: bool) -> Iterator[list[_Piece]]:
    """Put pieces with equally many queries together, as long as that does not pad too many keys."""
    pieces = sorted(_pieces(batch, window, causal), key=lambda piece: (piece.num_queries, piece.num_keys))
    for _, alike in groupby(pieces, key=lambda piece: piece.num_queries):
        bundle: list[_Piece] = []
        num_keys = 0
        for piece in alike:
            padded = (len(bundle) + 1) * piece.num_keys
            if bundle and (padded > _MAX_KEYS or padded > 1.25 * (num_keys + piece.num_keys) + 1024):
                yield bundle
                bundle, num_keys = [], 0
            bundle.append(piece)
            num_keys += piece.num_keys
        yield bundle


def _group(batch: ForwardBatch, pieces: list[_Piece], window: int, causal: bool, dtype: torch.dtype) -> _Group:
    columns = torch.tensor(pieces)  # [B, 6]
    rows, token, _, position, first_key, num_keys = columns.unsqueeze(-1).unbind(1)  # each [B, 1]
    queries = torch.arange(pieces[0].num_queries)
    steps = torch.arange(pieces[-1].num_keys)  # the last piece has the most
    present = steps < num_keys
    place = torch.where(present, first_key + steps, 0)
    pages = batch.page_table[batch.row_slots[rows], place // batch.page_size].long()
    # A key that is not there must not be read: page 0 holds zeros, any other page may hold another request's NaN.
    loc = torch.where(present, pages * batch.page_size + place % batch.page_size, 0)
    at, key_at = (position + queries)[:, :, None], (first_key + steps)[:, None, :]
    seen = present[:, None, :]
    if causal:
        seen = seen & (key_at <= at)
    if window:
        seen = seen & (key_at > at - window)
    mask = torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, float("-inf"))
    return _Group((token + queries).flatten(), len(pieces), loc.flatten(), mask[:, None])


def _attend_fused(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, layer: AttentionLayer) -> Tensor:
    """Attend with q [B, H, M, D], k [B, KH, N, D], v [B, KH, N, D] and a mask [B, 1, M, N]."""
    if q.shape[2] > 1:
        return scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=layer.scale, enable_gqa=True)
    # Heads that share keys are queries of one head when there is one query: no key is copied.
    shared = q.reshape(q.shape[0], layer.num_kv_heads, -1, q.shape[3])
    return scaled_dot_product_attention(shared, k, v, attn_mask=mask, scale=layer.scale).reshape(*q.shape[:3], -1)


def _attend_plainly(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, layer: AttentionLayer) -> Tensor:
    """Attend step by step, in float32: for soft caps, sinks, and values that are narrower than keys."""
    batch, heads, queries, _ = q.shape
    shared = q.reshape(batch, layer.num_kv_heads, -1, layer.key_dim).float()  # [B, KH, G * M, D]
    scores = torch.matmul(shared, k.float().transpose(-1, -2)).view(batch, heads, queries, -1) * layer.scale
    if layer.softcap:
        scores = layer.softcap * torch.tanh(scores / layer.softcap)
    scores = scores + mask.float()
    if layer.sinks is not None:
        sink = layer.sinks.float()[:, None, None].expand(batch, heads, queries, 1)
        share = torch.softmax(torch.cat((scores, sink), dim=-1), dim=-1)[..., :-1]
    else:
        share = torch.softmax(scores, dim=-1)
    share = share.reshape(batch, layer.num_kv_heads, -1, share.shape[-1])
    return torch.matmul(share, v.float()).reshape(batch, heads, queries, -1).to(q.dtype)
