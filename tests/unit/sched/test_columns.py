"""Columns: what a request's row holds when it gets its slot."""

import numpy as np

from banyan.sched.columns import STOP_IDS, Columns
from banyan.sched.req import Phase, Req
from banyan.wire.request import LogprobSpec, SamplingParams, TokenizedEmbeddingReqInput, TokenizedGenerateReqInput
from tests.fakes.grammar import Parity
from tests.fakes.world import embed, generate


def filled(
    ask: TokenizedGenerateReqInput | TokenizedEmbeddingReqInput, stop_ids: tuple[int, ...] = (), retractions: int = 0
) -> tuple[Columns, Req]:
    columns = Columns(num_slots=4, context_length=32)
    req = Req(ask, 1, 0.0, 1.0)
    req.slot, req.retractions = 2, retractions
    columns.fill(2, req, stop_ids, interval=3)
    return columns, req


def test_lengths_and_names() -> None:
    ask = generate(7, [1, 2, 3], 4, epoch=2, committed=[5])
    columns, _ = filled(ask)
    assert (columns.uid[2], columns.epoch[2], columns.prompt_len[2], columns.known[2]) == (7, 2, 3, 4)
    assert (columns.fed[2], columns.sent[2], columns.limit[2], columns.in_flight[2]) == (0, 4, 7, 0)
    assert columns.interval[2] == 3
    assert columns.sequence(2, 4).tolist() == [1, 2, 3, 5]


def test_what_the_cache_had_is_fed_already() -> None:
    columns = Columns(4, 32)
    req = Req(generate(7, range(9)), 1, 0.0, 1.0)
    req.slot, req.reused, req.opened, req.sent = 1, 8, True, 9
    columns.fill(1, req, (), 1)
    assert columns.fed[1] == 8
    assert columns.opened[1]


def test_a_row_forgets_who_was_there_before() -> None:
    columns, _ = filled(generate(1, [1], logprobs=LogprobSpec()), stop_ids=(5, 6), retractions=2)
    columns.in_flight[2] = 3
    columns.opened[2] = True
    after = Req(generate(9, [4]), 2, 0.0, 1.0)
    after.slot = 2
    columns.fill(2, after, (8,), 1)
    assert columns.stop_ids[2].tolist() == [8, -1, -1, -1]
    assert not (columns.in_flight[2] or columns.opened[2] or columns.special[2] or columns.certain[2])


def test_stop_tokens_beyond_the_column_make_a_row_special() -> None:
    few, _ = filled(generate(1, [1]), stop_ids=tuple(range(STOP_IDS)))
    many, _ = filled(generate(1, [1]), stop_ids=tuple(range(STOP_IDS + 1)))
    assert few.stop_ids[2].tolist() == many.stop_ids[2].tolist() == [0, 1, 2, 3]
    assert not few.special[2]
    assert many.special[2]


def test_grammar_and_reports_make_a_row_special() -> None:
    columns, req = filled(generate(1, [1]))
    assert not columns.special[2]
    req.set_grammar(Parity())
    columns.fill(2, req, (), 1)
    assert columns.special[2]
    columns, _ = filled(generate(1, [1], logprobs=LogprobSpec()))
    assert columns.special[2]
    columns, _ = filled(generate(1, [1], hidden_states=True))
    assert columns.special[2]


def test_all_is_set_aside_for_whoever_was_retracted_twice() -> None:
    assert [bool(filled(generate(1, [1]), retractions=n)[0].certain[2]) for n in range(4)] == [False, False, True, True]


def test_a_least_length_beyond_all_bounds_fits_the_column() -> None:
    sampling = SamplingParams(max_new_tokens=5, min_new_tokens=2**31 - 1)
    columns, _ = filled(generate(1, [1, 2, 3], sampling=sampling))
    assert columns.stop_floor[2] == columns.limit[2] == 8


def test_an_embedding_ends_with_its_prompt() -> None:
    columns, _ = filled(embed(1, [1, 2, 3]))
    assert columns.limit[2] == columns.known[2] == 3


def test_a_phase_is_changed_in_both_places() -> None:
    columns, req = filled(generate(1, [1]))
    columns.set_phase(req, Phase.HELD)
    assert req.phase is Phase.HELD
    assert columns.phase[2] == Phase.HELD


def test_without_a_slot_no_row_is_touched() -> None:
    columns, req = filled(generate(1, [1]))
    req.slot = 0
    columns.set_phase(req, Phase.DONE)
    assert req.phase is Phase.DONE
    assert (columns.phase == Phase.WAITING).all()


def test_the_token_table_has_a_column_for_every_length() -> None:
    columns = Columns(2, 32)
    assert columns.tokens.shape == (3, 33)
    assert columns.tokens.dtype == np.int32
