import torch

from banyan.wire.request import SamplingParams
from tests.unit.sampling.builders import VOCAB, admission, state


def test_plain_requests_have_no_tables() -> None:
    built = state(admission(1, SamplingParams(temperature=0.5, top_k=-1)))
    assert not built.extras
    assert built.top_k[1] == VOCAB
    assert built.temperature[1] == 0.5


def test_counts_start_from_what_was_put_out_before() -> None:
    sampling = SamplingParams(frequency_penalty=1.0, repetition_penalty=1.5)
    extras = state(admission(1, sampling, prompt=(2, 3), output=(5, 5))).extras[1]
    assert extras.counts is not None
    assert extras.seen is not None
    assert extras.counts.nonzero().flatten().tolist() == [5]
    assert extras.counts[5] == 2
    assert extras.seen.nonzero().flatten().tolist() == [2, 3, 5]


def test_sampled_tokens_are_counted_and_a_released_slot_forgets() -> None:
    built = state(admission(1, SamplingParams(presence_penalty=1.0)))
    built.sampled(1, 9)
    counts = built.extras[1].counts
    assert counts is not None
    assert torch.equal(counts.nonzero().flatten(), torch.tensor([9]))
    built.release(1)
    assert not built.extras
    assert not built.special[1]


def test_least_length_bars_stop_tokens_and_the_end_of_text() -> None:
    extras = state(admission(1, SamplingParams(min_new_tokens=3, stop_token_ids=(7,)))).extras[1]
    assert extras.early_ids.tolist() == [7, 1]
    assert extras.min_length == 5
