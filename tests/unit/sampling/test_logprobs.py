import numpy as np
import torch

from banyan.sampling.logprobs import output_logprobs, prompt_logprobs
from banyan.wire.request import LogprobSpec


def test_output_row() -> None:
    logits = torch.randn(30, generator=torch.Generator().manual_seed(3))
    expected = torch.log_softmax(logits, -1)
    row = output_logprobs(4, logits, 7, LogprobSpec(top=3, token_ids=(2, 9)))
    assert row.row == 4
    assert np.isclose(row.value, expected[7])
    assert row.top_ids.tolist() == expected.topk(3).indices.tolist()
    assert np.allclose(row.top_values, expected.topk(3).values)
    assert np.allclose(row.chosen, expected[[2, 9]])


def test_prompt_rows() -> None:
    logits = torch.randn(5, 30, generator=torch.Generator().manual_seed(4))
    targets = np.array([1, 2, 3, 4, 5], np.int32)
    expected = torch.log_softmax(logits, -1)
    row = prompt_logprobs(0, logits, targets, LogprobSpec(start=0, top=2, token_ids=(8,)))
    assert np.allclose(row.prompt_values, [expected[i, i + 1] for i in range(5)])
    assert row.prompt_top_ids.reshape(5, 2).tolist() == expected.topk(2, dim=-1).indices.tolist()
    assert np.allclose(row.prompt_chosen, expected[:, 8])
