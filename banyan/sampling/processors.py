"""Functions on logits and probabilities, in the order in which they are applied.

1. penalties: repetition, then frequency and presence    4. temperature
2. logit bias                                            5. top-k, top-p and min-p, all on the same probabilities
3. barred tokens: least length, then the grammar's mask
"""

import torch

from banyan.sampling.state import Extras


def apply_extras(logits: torch.Tensor, extras: Extras, position: int) -> None:
    """Change one row of logits [vocab] in place: penalties, bias, tokens barred before the least length."""
    sampling = extras.sampling
    if extras.seen is not None:
        penalised = torch.where(logits > 0, logits / sampling.repetition_penalty, logits * sampling.repetition_penalty)
        logits.copy_(torch.where(extras.seen, penalised, logits))
    if extras.counts is not None:
        logits -= sampling.frequency_penalty * extras.counts
        logits -= sampling.presence_penalty * (extras.counts > 0)
    if len(extras.bias_ids):
        logits.index_add_(0, extras.bias_ids, extras.bias_values)
    if len(extras.early_ids) and position < extras.min_length:
        logits.index_fill_(0, extras.early_ids, -torch.inf)


def apply_mask(logits: torch.Tensor, mask: torch.Tensor) -> None:
    """Bar the tokens of one row [vocab] whose bit in `mask` [words] (int32, least bit first) is not set."""
    bits = torch.arange(32, device=logits.device, dtype=torch.int32)
    allowed = ((mask[:, None] >> bits) & 1).flatten()[: logits.shape[0]].bool()
    logits.masked_fill_(~allowed, -torch.inf)


def filter_probabilities(
    probabilities: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor, min_p: torch.Tensor
) -> torch.Tensor:
    """Set to zero what top-k, top-p or min-p leaves out; rows [rows, vocab] need not add up to one afterwards.

    All three look at the same probabilities: a token stays if it is among the k most likely, if those before it do
    not make up p already, and if it is at least min_p times as likely as the likeliest."""
    ordered, order = probabilities.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(dim=-1) - ordered
    ranks = torch.arange(ordered.shape[1], device=ordered.device)
    keep = (ranks < top_k[:, None]) & (before < top_p[:, None]) & (ordered >= min_p[:, None] * ordered[:, :1])
    keep[:, 0] = True
    return torch.zeros_like(probabilities).scatter_(1, order, torch.where(keep, ordered, 0.0))


def draw(weights: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Choose one index a row of `weights` [rows, vocab], with chance in proportion, by one number in [0, 1) a row."""
    sums = weights.to(torch.float64).cumsum(dim=-1)
    targets = uniforms[:, None] * sums[:, -1:]
    chosen = torch.searchsorted(sums, targets, right=True).squeeze(1)
    # Rounding may lead past the last token with any weight.
    last = weights.shape[1] - 1 - (weights.flip(1) > 0).to(torch.int8).argmax(dim=1)
    return torch.minimum(chosen, last)
