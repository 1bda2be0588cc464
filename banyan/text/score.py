"""Scoring: how likely given tokens are to follow a query and each of several items."""

import math
from collections.abc import Sequence
from typing import Any

from banyan.text.request import GenerateReqInput, RequestError
from banyan.text.result import Output
from banyan.wire.request import SamplingParams

# One token is computed and thrown away; it may be any, as may be the end of the text.
_ONE_TOKEN = SamplingParams(max_new_tokens=1, temperature=0.0, ignore_eos=True)


def score_request(
    query: str | Sequence[int],
    items: str | Sequence[str] | Sequence[Sequence[int]],
    label_token_ids: Sequence[int] | None,
    *,
    item_first: bool,
    **options: Any,
) -> GenerateReqInput:
    """Ask for the labels' log-probabilities after the query with each item: all texts, or all token ids."""
    if not label_token_ids or isinstance(label_token_ids, str | bytes):
        raise RequestError(400, "label_token_ids", "must be a list of token ids that is not empty")
    several: list[Any] = [items] if isinstance(items, str) else list(items)
    if not several:
        raise RequestError(400, "items", "must be a list that is not empty")
    asked: dict[str, Any] = {
        "sampling_params": _ONE_TOKEN,
        "return_logprob": True,
        "token_ids_logprob": list(label_token_ids),
        **options,
    }
    if isinstance(query, str) and all(isinstance(item, str) for item in several):
        return GenerateReqInput(
            text=[f"{item}{query}" if item_first else f"{query}{item}" for item in several], **asked
        )
    if isinstance(query, str) or any(isinstance(item, str) or not isinstance(item, Sequence) for item in several):
        raise RequestError(400, "items", "must be texts if the query is text, and lists of token ids if it is such")
    pairs = [(list(item), list(query)) if item_first else (list(query), list(item)) for item in several]
    return GenerateReqInput(input_ids=[before + after for before, after in pairs], **asked)


def in_words_of_scores(error: RequestError) -> RequestError:
    """Name the labels as their asker does."""
    field = error.field.replace("token_ids_logprob", "label_token_ids")
    return RequestError(error.status, field, error.message, error.retry_after_s)


def label_scores(output: Output, *, apply_softmax: bool) -> list[float]:
    """Read one item's scores: probabilities over the vocabulary, or with softmax over the labels alone.

    Raises RequestError if the request failed: a score that is missing must not look like a low one."""
    end = output["meta_info"]["finish_reason"]
    if end is None or end["type"] not in ("stop", "length"):
        found = end or {}
        raise RequestError(found.get("status", 500), "", f"an item was not scored: {found.get('message', 'no end')}")
    logprobs = [-math.inf if value is None else value for value, _, _ in _labels(output)]
    best = max(logprobs)
    if not apply_softmax or best == -math.inf:
        return [math.exp(value) for value in logprobs]
    weights = [math.exp(value - best) for value in logprobs]
    return [weight / sum(weights) for weight in weights]


def _labels(output: Output) -> list[tuple[float | None, int, None]]:
    return output["meta_info"]["output_token_ids_logprobs"][0]
