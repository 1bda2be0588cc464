"""ForwardBatch and ForwardMode: everything a model, a layer or an attention backend may see of a step."""

import enum
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from banyan.wire.base import I32, Bool


class ForwardMode(enum.Enum):
    """What the rows of a batch feed. A prompt of one token counts as decoding: for a device it is the same work."""

    EXTEND = "extend"  # several tokens each
    DECODE = "decode"  # one token each
    MIXED = "mixed"
    IDLE = "idle"  # there are no rows


@dataclass(frozen=True, slots=True)
class ForwardBatch:
    """T tokens of R rows, S of which are sampled from (or pooled). Each row belongs to a slot of its own.

    A row's tokens stand at positions prefix_len : seq_len of its sequence; its pages are page_table[slot]. What is
    needed to plan on the host is there as numpy, too.
    """

    mode: ForwardMode
    input_ids: Tensor  # [T] int64
    positions: Tensor  # [T] int64
    out_loc: Tensor  # [T] int64: where the token's KV goes, page * page_size + offset
    row_slots: Tensor  # [R] int64
    row_starts: Tensor  # [R + 1] int32: row r has the tokens row_starts[r] : row_starts[r + 1]
    prefix_lens: Tensor  # [R] int32
    seq_lens: Tensor  # [R] int32, this step's tokens included
    page_table: Tensor  # [slots + 1, max_pages] int32
    page_size: int
    sample_index: Tensor  # [S] int64: the last token of each row that is sampled from
    row_slots_np: I32  # [R]
    row_starts_np: I32  # [R + 1]
    prefix_lens_np: I32  # [R]
    seq_lens_np: I32  # [R]
    sample_rows_np: I32  # [S]: the rows that are sampled from


def build_batch(
    *, slots: I32, starts: I32, lengths: I32, samples: Bool, input_ids: Tensor, page_table: Tensor, page_size: int
) -> ForwardBatch:
    """Lay out rows that feed `lengths` tokens from position `starts` on; `input_ids` [T] has them, row after row.

    `input_ids` and `page_table` are on the device, and so are the batch's tensors.
    """
    device = page_table.device
    row_starts = np.zeros(len(slots) + 1, np.int32)
    np.cumsum(lengths, out=row_starts[1:])
    seq_lens = starts + lengths
    rows = np.repeat(np.arange(len(slots)), lengths)
    positions = np.arange(row_starts[-1]) - row_starts[rows] + starts[rows]
    sample_rows = np.flatnonzero(samples).astype(np.int32)

    def on_device(column: I32, dtype: torch.dtype) -> Tensor:
        # The copy makes the column writable: torch warns of a tensor over memory that is not.
        return torch.from_numpy(column.copy()).to(device=device, dtype=dtype)

    positions_t = on_device(positions.astype(np.int32), torch.int64)
    token_slots = on_device(slots[rows], torch.int64)
    pages = page_table[token_slots, positions_t // page_size].long()
    return ForwardBatch(
        mode=_mode(lengths),
        input_ids=input_ids,
        positions=positions_t,
        out_loc=pages * page_size + positions_t % page_size,
        row_slots=on_device(slots, torch.int64),
        row_starts=on_device(row_starts, torch.int32),
        prefix_lens=on_device(starts, torch.int32),
        seq_lens=on_device(seq_lens, torch.int32),
        page_table=page_table,
        page_size=page_size,
        sample_index=on_device(row_starts[1:][sample_rows] - 1, torch.int64),
        row_slots_np=slots,
        row_starts_np=row_starts,
        prefix_lens_np=starts,
        seq_lens_np=seq_lens,
        sample_rows_np=sample_rows,
    )


def _mode(lengths: I32) -> ForwardMode:
    if not len(lengths):
        return ForwardMode.IDLE
    single = lengths == 1
    if single.all():
        return ForwardMode.DECODE
    return ForwardMode.MIXED if single.any() else ForwardMode.EXTEND
