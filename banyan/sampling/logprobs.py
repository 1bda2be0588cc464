"""Log-probabilities of prompt and output tokens: the model's own, before temperature, penalties and masks."""

import numpy as np
import torch

from banyan.plan import RowLogprobs
from banyan.wire.base import F32, I32
from banyan.wire.request import LogprobSpec


def output_logprobs(row: int, logits: torch.Tensor, token: int, spec: LogprobSpec) -> RowLogprobs:
    """Report on one sampled token, given the row's logits [vocab]."""
    values = torch.log_softmax(logits.float(), dim=-1)
    top_values, top_ids = values.topk(min(spec.top, len(values)))
    return RowLogprobs(
        row=row,
        value=float(values[token]),
        top_ids=_i32(top_ids),
        top_values=_f32(top_values),
        chosen=_f32(values[list(spec.token_ids)]),
    )


def prompt_logprobs(row: int, logits: torch.Tensor, targets: I32, spec: LogprobSpec) -> RowLogprobs:
    """Report on prompt tokens: logits [positions, vocab] predict `targets`."""
    values = torch.log_softmax(logits.float(), dim=-1)
    top_values, top_ids = values.topk(min(spec.top, values.shape[1]), dim=-1)
    index = torch.from_numpy(targets.astype(np.int64)).to(values.device)
    return RowLogprobs(
        row=row,
        value=0.0,
        prompt_values=_f32(values.gather(1, index[:, None]).squeeze(1)),
        prompt_top_ids=_i32(top_ids.flatten()),
        prompt_top_values=_f32(top_values.flatten()),
        prompt_chosen=_f32(values[:, list(spec.token_ids)].flatten()),
    )


def _i32(tensor: torch.Tensor) -> I32:
    return tensor.to("cpu", torch.int32).numpy()


def _f32(tensor: torch.Tensor) -> F32:
    return tensor.to("cpu", torch.float32).numpy()
