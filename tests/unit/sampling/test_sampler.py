import numpy as np
import torch

from banyan.sampling.sampler import Sampler
from banyan.wire.base import I32
from banyan.wire.request import SamplingParams
from tests.unit.sampling.builders import VOCAB, admission, state

NONE: I32 = np.zeros(0, np.int32)


def _i32(*values: int) -> I32:
    return np.array(values, np.int32)


def test_greedy_takes_the_likeliest() -> None:
    logits = torch.randn(3, VOCAB, generator=torch.Generator().manual_seed(1))
    sampler = Sampler(state(*(admission(slot, SamplingParams(temperature=0)) for slot in (1, 2, 3))))
    tokens, bad = sampler.sample(logits.clone(), _i32(1, 2, 3), _i32(2, 2, 2), NONE, None)
    assert torch.equal(tokens, logits.argmax(-1))
    assert not bad.any()


def test_a_row_does_not_depend_on_its_company() -> None:
    rng = torch.Generator().manual_seed(2)
    logits = torch.randn(32, VOCAB, generator=rng)
    params = [
        SamplingParams(
            temperature=0.3 * (i % 4), top_p=1 - 0.1 * (i % 3), top_k=(-1, 5)[i % 2], min_p=0.02 * (i % 2),
            presence_penalty=0.5 * (i % 5 == 0),
        )
        for i in range(32)
    ]  # fmt: skip
    slots = np.arange(1, 33, dtype=np.int32)
    positions = np.arange(2, 34, dtype=np.int32)
    admissions = [admission(i + 1, p, seed=i) for i, p in enumerate(params)]
    together, _ = Sampler(state(*admissions)).sample(logits.clone(), slots, positions, NONE, None)
    for i in range(32):
        alone, _ = Sampler(state(admissions[i])).sample(
            logits[i : i + 1].clone(), slots[i : i + 1], positions[i : i + 1], NONE, None
        )
        assert alone.item() == together[i].item()


def test_distribution_follows_the_probabilities() -> None:
    logits = torch.log(torch.tensor([0.5, 0.25, 0.125, 0.125] + [1e-30] * (VOCAB - 4)))
    sampler = Sampler(state(admission(1, SamplingParams(temperature=1.0), seed=11)))
    drawn = [
        int(sampler.sample(logits[None].clone(), _i32(1), _i32(position), NONE, None)[0]) for position in range(2, 4002)
    ]
    shares = np.bincount(drawn, minlength=VOCAB) / 4000
    assert np.abs(shares[:4] - [0.5, 0.25, 0.125, 0.125]).max() < 0.03
    assert shares[4:].sum() == 0


def test_masks_hold_for_greedy_and_drawn_rows_whatever_the_bias() -> None:
    biased = SamplingParams(temperature=0, logit_bias=((9, 100.0),))
    sampler = Sampler(state(admission(1, biased), admission(2, SamplingParams(temperature=1.0))))
    mask = np.zeros((2, 2), np.uint32)
    mask[:, 0] = 1 << 5
    tokens, bad = sampler.sample(torch.zeros(2, VOCAB), _i32(1, 2), _i32(2, 2), _i32(0, 1), mask)
    assert tokens.tolist() == [5, 5]
    assert not bad.any()


def test_rows_that_are_not_finite_fail_alone() -> None:
    logits = torch.zeros(3, VOCAB)
    logits[1] = torch.nan
    logits[2] = -torch.inf
    sampler = Sampler(state(*(admission(slot, SamplingParams(temperature=1.0)) for slot in (1, 2, 3))))
    tokens, bad = sampler.sample(logits, _i32(1, 2, 3), _i32(2, 2, 2), NONE, None)
    assert bad.tolist() == [False, True, True]
    assert tokens[1:].tolist() == [0, 0]
