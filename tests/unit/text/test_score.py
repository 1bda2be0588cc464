"""Tests of banyan.text.score."""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from banyan.text.request import RequestError
from banyan.text.result import EndInfo, Output
from banyan.text.score import in_words_of_scores, label_scores, score_request


def output(end: EndInfo | None, *logprobs: float | None) -> Output:
    scored = [(value, token, None) for token, value in enumerate(logprobs)]
    return {"meta_info": {"finish_reason": end, "output_token_ids_logprobs": [scored]}}


def test_texts_and_token_ids_are_joined_in_the_order_asked_for() -> None:
    asked = score_request("is ", ["a", ""], [1, 2], item_first=False, priority=3)
    assert (asked.text, asked.input_ids, asked.priority) == (["is a", "is "], None, 3)
    assert (asked.return_logprob, asked.token_ids_logprob) == (True, [1, 2])
    assert score_request("is ", "a", [1], item_first=True).text == ["ais "]
    assert score_request([7], [[8, 9], [5]], [1], item_first=False).input_ids == [[7, 8, 9], [7, 5]]
    assert score_request([7], [[8, 9]], [1], item_first=True).input_ids == [[8, 9, 7]]


@pytest.mark.parametrize(
    ("query", "items", "labels", "field"),
    [
        ("q", ["a"], None, "label_token_ids"),
        ("q", ["a"], [], "label_token_ids"),
        ("q", [], [1], "items"),
        ("q", [[1]], [1], "items"),
        ([1], ["a"], [1], "items"),
        ([1], [2, 3], [1], "items"),
    ],
)
def test_what_cannot_be_scored_is_refused(query: Any, items: Any, labels: Sequence[int] | None, field: str) -> None:
    with pytest.raises(RequestError) as refusal:
        score_request(query, items, labels, item_first=False)
    assert (refusal.value.status, refusal.value.field) == (400, field)


def test_scores_are_probabilities_and_softmax_makes_them_add_up_to_one() -> None:
    found = output({"type": "length"}, math.log(0.3), math.log(0.1))
    assert label_scores(found, apply_softmax=False) == pytest.approx([0.3, 0.1])
    assert label_scores(found, apply_softmax=True) == pytest.approx([0.75, 0.25])


def test_labels_that_are_impossible_score_zero() -> None:
    found = output({"type": "length"}, -math.inf, -math.inf)
    assert label_scores(found, apply_softmax=True) == label_scores(found, apply_softmax=False) == [0.0, 0.0]


def test_an_item_that_failed_has_no_score() -> None:
    with pytest.raises(RequestError, match="not scored: broken") as failure:
        label_scores(output({"type": "error", "message": "broken", "status": 503}), apply_softmax=False)
    assert failure.value.status == 503
    with pytest.raises(RequestError, match="not scored: enough"):
        label_scores(output({"type": "abort", "message": "enough"}), apply_softmax=False)


def test_refusals_name_the_labels_as_their_asker_does() -> None:
    error = in_words_of_scores(RequestError(400, "token_ids_logprob[2]", "is wrong", 7))
    assert (error.status, str(error), error.retry_after_s) == (400, "label_token_ids[2]: is wrong", 7)
