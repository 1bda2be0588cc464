"""Tests of banyan.models.heads."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from banyan.config.architecture import Pooling
from banyan.forward import ForwardBatch, build_batch
from banyan.models.heads import LMHead, PoolHead, ScoreHead, pool
from tests.unit.layers.stubs import PLACE, fill

HIDDEN = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))


def rows(starts: tuple[int, ...] = (0, 0, 0)) -> ForwardBatch:
    """Make rows of three, two and four tokens; the first and the last are sampled from."""
    return build_batch(
        slots=np.array([1, 2, 3], np.int32),
        starts=np.array(starts, np.int32),
        lengths=np.array([3, 2, 4], np.int32),
        samples=np.array([True, False, True]),
        input_ids=torch.zeros(9, dtype=torch.int64),
        page_table=torch.ones(4, 8, dtype=torch.int32),
        page_size=4,
    )


def test_logits_of_the_rows_that_are_sampled_from() -> None:
    head = LMHead(4, 6, softcap=0.0, place=PLACE)
    fill(head)
    torch.testing.assert_close(head.forward(HIDDEN, rows()), HIDDEN[[2, 8]] @ head.weight.T)
    torch.testing.assert_close(head.logits(HIDDEN), HIDDEN @ head.weight.T)


def test_logits_are_bent_and_wide() -> None:
    head = LMHead(4, 6, softcap=0.5, place=PLACE._replace(dtype=torch.bfloat16))
    fill(head)
    logits = head.logits(HIDDEN.bfloat16() * 100)
    assert logits.dtype == torch.float32
    assert logits.abs().max() == 0.5


def test_a_tied_head_has_no_weight_of_its_own() -> None:
    weight = PLACE.parameter(6, 4)
    assert LMHead(4, 6, softcap=0.0, place=PLACE, weight=weight).weight is weight


@pytest.mark.parametrize(
    ("pooling", "wanted"),
    [
        ("last", HIDDEN[[2, 8]]),
        ("cls", HIDDEN[[0, 5]]),
        ("mean", torch.stack([HIDDEN[0:3].mean(0), HIDDEN[5:9].mean(0)])),
    ],
)
def test_rows_become_one_vector(pooling: Pooling, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(pool(HIDDEN, rows(), pooling), wanted)
    embedded = PoolHead(pooling).forward(HIDDEN, rows())
    torch.testing.assert_close(embedded, wanted / wanted.norm(dim=-1, keepdim=True))


def test_only_the_last_token_can_be_taken_of_a_row_that_is_not_whole() -> None:
    behind = rows((0, 0, 4))
    torch.testing.assert_close(pool(HIDDEN, behind, "last"), HIDDEN[[2, 8]])
    torch.testing.assert_close(pool(HIDDEN, rows((0, 4, 0)), "cls"), HIDDEN[[0, 5]])  # that row is not asked for
    for pooling in ("cls", "mean"):
        with pytest.raises(ValueError, match=f"{pooling} pooling needs each row whole"):
            PoolHead(pooling).forward(HIDDEN, behind)


def test_scores() -> None:
    reward = ScoreHead(4, 1, dense=False, place=PLACE)
    fill(reward)
    torch.testing.assert_close(reward.forward(HIDDEN, rows()), HIDDEN[[2, 8]] @ reward.score.weight.T)
    classifier = ScoreHead(4, 3, dense=True, place=PLACE)
    fill(classifier)
    assert classifier.dense is not None
    inner = torch.tanh(functional.linear(HIDDEN[[0, 5]], classifier.dense.weight, classifier.dense.bias))
    wanted = functional.linear(inner, classifier.score.weight, classifier.score.bias)
    torch.testing.assert_close(classifier.forward(HIDDEN, rows()), wanted)
