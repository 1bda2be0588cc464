"""Tests of banyan.kernels.reference.paged_attention."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from banyan.kernels.reference.paged_attention import paged_attention

PAGE = 4
HEADS, KV_HEADS, DIM, VALUE = 6, 2, 8, 5
PLAIN: dict[str, Any] = {
    "page_size": PAGE,
    "scale": 0.3,
    "window": 0,
    "softcap": 0.0,
    "sinks": None,
    "causal": True,
}


class Rows:
    """Rows of random keys and values, in order and in scattered pages."""

    def __init__(self, prefixes: list[int], lengths: list[int]) -> None:
        torch.manual_seed(0)
        rng = np.random.default_rng(0)
        self.prefixes, self.lengths = prefixes, lengths
        seq_lens = [a + b for a, b in zip(prefixes, lengths, strict=True)]
        self.seq_lens = seq_lens
        self.q = torch.randn(sum(lengths), HEADS, DIM)
        self.keys = [torch.randn(length, KV_HEADS, DIM) for length in seq_lens]
        self.values = [torch.randn(length, KV_HEADS, VALUE) for length in seq_lens]
        ids = iter(rng.permutation(np.arange(1, 60)).tolist())
        self.pages = torch.zeros(len(lengths), 8, dtype=torch.int32)
        # What is in no row is not a number: to read it shows.
        self.k_buffer = torch.full((60 * PAGE, KV_HEADS, DIM), float("nan"))
        self.v_buffer = torch.full((60 * PAGE, KV_HEADS, VALUE), float("nan"))
        for row, length in enumerate(seq_lens):
            for position in range(length):
                if position % PAGE == 0:
                    self.pages[row, position // PAGE] = next(ids)
                loc = int(self.pages[row, position // PAGE]) * PAGE + position % PAGE
                self.k_buffer[loc], self.v_buffer[loc] = self.keys[row][position], self.values[row][position]

    def attend(self, **differences: Any) -> Tensor:
        """Run the op."""
        starts = np.cumsum([0, *self.lengths]).astype(np.int32)
        lens = np.array(self.prefixes, np.int32), np.array(self.seq_lens, np.int32)
        settings = {**PLAIN, **differences}
        return paged_attention(self.q, self.k_buffer, self.v_buffer, self.pages, starts, *lens, **settings)

    def by_torch(self, window: int, causal: bool) -> Tensor:
        """Attend with torch's own function, over contiguous keys."""
        found = []
        for row, q in enumerate(self.q.split_with_sizes(self.lengths)):
            length = self.seq_lens[row]
            at = torch.arange(self.prefixes[row], length)[:, None]
            seen = torch.ones(len(q), length, dtype=torch.bool)
            if causal:
                seen = seen.tril(self.prefixes[row])
            if window:
                seen &= at - torch.arange(length) < window
            k, v = self.keys[row].transpose(0, 1), self.values[row].transpose(0, 1)
            out = scaled_dot_product_attention(q.transpose(0, 1), k, v, attn_mask=seen, scale=0.3, enable_gqa=True)
            found.append(out.transpose(0, 1))
        return torch.cat(found)


@pytest.fixture
def rows() -> Rows:
    """Make a new prompt, a row behind a prefix, and decode rows."""
    return Rows([0, 7, 12, 0], [9, 5, 1, 1])


@pytest.mark.parametrize(("window", "causal"), [(0, True), (3, True), (1, True), (100, True), (0, False)])
def test_it_is_torchs_own_over_scattered_pages(rows: Rows, window: int, causal: bool) -> None:
    torch.testing.assert_close(rows.attend(window=window, causal=causal), rows.by_torch(window, causal))


def test_a_sink_is_a_key_whose_value_is_zero() -> None:
    """With keys that make every score zero, shares can be counted."""
    rows = Rows([3], [2])
    rows.k_buffer.zero_()
    sinks = torch.log(torch.arange(1.0, HEADS + 1))  # as heavy as so many keys
    found = rows.attend(sinks=sinks)
    for token, num_keys in enumerate((4, 5)):
        for head in range(HEADS):
            wanted = rows.values[0][:num_keys, head // 3].sum(0) / (num_keys + head + 1)
            torch.testing.assert_close(found[token, head], wanted)


def test_a_soft_cap_bends_scores_before_the_mask() -> None:
    rows = Rows([0], [3])
    found = rows.attend(softcap=0.1)
    scores = torch.einsum("nhd,mhd->hnm", rows.q, rows.keys[0].repeat_interleave(3, dim=1)) * 0.3
    capped = (0.1 * torch.tanh(scores / 0.1)).masked_fill(torch.ones(3, 3).triu(1) == 1, float("-inf"))
    values = rows.values[0].repeat_interleave(3, dim=1)
    torch.testing.assert_close(found, torch.einsum("hnm,mhd->nhd", torch.softmax(capped, -1), values))
