"""Batches for models whose attention sees the batch alone."""

import numpy as np
import torch

from banyan.forward import ForwardBatch, build_batch


def row(num_tokens: int) -> ForwardBatch:
    """Make a batch of one new row, or of none."""
    count = min(num_tokens, 1)
    return build_batch(
        slots=np.ones(count, np.int32),
        starts=np.zeros(count, np.int32),
        lengths=np.full(count, num_tokens, np.int32),
        samples=np.ones(count, np.bool_),
        input_ids=torch.arange(num_tokens),
        page_table=torch.ones(2, 64, dtype=torch.int32),
        page_size=1,
    )
