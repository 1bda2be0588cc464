"""Log-probabilities of one row of the fake device, for a request that asked for them."""

import numpy as np

from banyan.plan import Admission, RowLogprobs
from banyan.wire.base import F32, I32
from banyan.wire.request import LogprobSpec
from banyan.worker.fake_slots import Fed, Launched
from banyan.worker.oracle import Oracle

_NO_F32: F32 = np.zeros(0, np.float32)
_NO_I32: I32 = np.zeros(0, np.int32)


def row_logprobs(oracle: Oracle, admission: Admission, launched: Launched, row: int, token: int) -> RowLogprobs | None:
    """Report the sampled token (-1: none) and the prompt tokens that the row fed, as far as they were asked for."""
    spec = admission.logprobs
    if spec is None:
        return None
    ids = np.array(spec.token_ids, np.int32)
    found = RowLogprobs(row=row, value=0.0)
    if token >= 0:
        one = slice(row, row + 1)
        values = oracle.logprobs(launched.states[one], launched.texts[one], launched.positions[one])
        top_ids, top_values = _top(values, spec.top)
        found = RowLogprobs(
            row=row, value=float(values[0, token]), top_ids=top_ids, top_values=top_values, chosen=values[0, ids]
        )
    fed = launched.fed.get(row)
    if fed is None or spec.start < 0:
        return found
    prompt, tokens = _prompt(oracle, spec, fed, admission.prompt_len)
    top_ids, top_values = _top(prompt, spec.top)
    return RowLogprobs(
        row=row,
        value=found.value,
        top_ids=found.top_ids,
        top_values=found.top_values,
        chosen=found.chosen,
        prompt_values=prompt[np.arange(len(tokens)), tokens],
        prompt_top_ids=top_ids,
        prompt_top_values=top_values,
        prompt_chosen=prompt[:, ids].ravel(),
    )


def _prompt(oracle: Oracle, spec: LogprobSpec, fed: Fed, prompt_len: int) -> tuple[F32, I32]:
    """Return [positions, vocabulary] for the prompt positions that are asked for, and the tokens there."""
    first = max(spec.start - fed.start, 0)
    keep = slice(first, max(prompt_len - fed.start, first))
    positions = np.arange(fed.start, fed.start + len(fed.tokens), dtype=np.int32)
    return oracle.logprobs(fed.states[keep], fed.texts[keep], positions[keep]), fed.tokens[keep]


def _top(values: F32, count: int) -> tuple[I32, F32]:
    """Return the best tokens of each row, best first, and their values, end to end."""
    if not count or not len(values):
        return _NO_I32, _NO_F32
    ids = np.argsort(-values, axis=1, kind="stable")[:, :count]
    return ids.astype(np.int32).ravel(), np.take_along_axis(values, ids, 1).ravel()
