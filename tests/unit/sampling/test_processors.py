import numpy as np
import torch

from banyan.sampling.processors import apply_extras, apply_mask, draw, filter_probabilities
from banyan.wire.request import SamplingParams
from tests.unit.sampling.builders import VOCAB, admission, state


def _applied(
    sampling: SamplingParams, logits: torch.Tensor, output: tuple[int, ...] = (), position: int = 9
) -> torch.Tensor:
    extras = state(admission(1, sampling, output=output)).extras[1]
    changed = logits.clone()
    apply_extras(changed, extras, position)
    return changed


def test_frequency_and_presence_penalties() -> None:
    logits = torch.zeros(VOCAB)
    changed = _applied(SamplingParams(frequency_penalty=0.5, presence_penalty=0.25), logits, output=(5, 5, 6))
    assert changed[5] == -1.25
    assert changed[6] == -0.75
    assert changed[7] == 0


def test_repetition_penalty_divides_positive_and_multiplies_negative() -> None:
    logits = torch.zeros(VOCAB)
    logits[2], logits[3], logits[4] = 4.0, -4.0, 4.0
    changed = _applied(SamplingParams(repetition_penalty=2.0), logits)
    assert changed[2] == 2.0
    assert changed[3] == -8.0
    assert changed[4] == 4.0


def test_bias_and_least_length() -> None:
    sampling = SamplingParams(logit_bias=((4, 2.5),), min_new_tokens=4)
    early, late = (_applied(sampling, torch.zeros(VOCAB), position=p) for p in (5, 6))
    assert early[4] == 2.5
    assert early[1] == -torch.inf
    assert late[1] == 0


def test_mask_bars_every_token_without_a_bit() -> None:
    allowed = np.zeros(64, bool)
    allowed[[0, 31, 32, 49]] = True
    words = np.packbits(allowed, bitorder="little").view(np.int32)
    logits = torch.zeros(VOCAB)
    apply_mask(logits, torch.from_numpy(words))
    assert torch.isfinite(logits).nonzero().flatten().tolist() == [0, 31, 32, 49]


def test_filters_against_a_plain_loop() -> None:
    rng = torch.Generator().manual_seed(0)
    for _ in range(50):
        probabilities = torch.softmax(torch.randn(1, 20, generator=rng) * 2, dim=-1)
        k = int(torch.randint(1, 21, (1,), generator=rng))
        p = float(torch.rand(1, generator=rng)) * 0.98 + 0.01
        m = float(torch.rand(1, generator=rng)) * 0.5
        kept = filter_probabilities(probabilities, torch.tensor([k]), torch.tensor([p]), torch.tensor([m]))[0]
        row = probabilities[0].tolist()
        order = sorted(range(20), key=lambda i: -row[i])
        expected = set()
        before = 0.0
        for rank, i in enumerate(order):
            if rank == 0 or (rank < k and before < p and row[i] >= m * row[order[0]]):
                expected.add(i)
            before += row[i]
        assert set(kept.nonzero().flatten().tolist()) == expected


def test_draw_follows_the_weights_and_never_leaves_them() -> None:
    weights = torch.tensor([[0.0, 0.2, 0.0, 0.6, 0.2, 0.0]]).repeat(3000, 1)
    uniforms = torch.linspace(0, 1 - 1e-9, 3000, dtype=torch.float64)
    counts = torch.bincount(draw(weights, uniforms), minlength=6)
    assert counts[[0, 2, 5]].sum() == 0
    assert abs(int(counts[3]) - 1800) <= 1
    assert draw(weights[:1], torch.tensor([1.0], dtype=torch.float64)).tolist() == [4]
