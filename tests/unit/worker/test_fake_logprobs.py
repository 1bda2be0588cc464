"""Log-probabilities of a row: the token, the best ones, the chosen ones, and the prompt as far as it was asked for."""

from dataclasses import replace

import numpy as np
import pytest

from banyan.plan import Admission, RowLogprobs, Step
from banyan.wire.request import LogprobSpec, SamplingParams
from banyan.worker import utf8
from banyan.worker.fake_logprobs import row_logprobs
from banyan.worker.fake_slots import Fed, Launched
from banyan.worker.oracle import Oracle

ORACLE = Oracle()
PROMPT = np.frombuffer(b"some prompt", np.uint8).astype(np.int32)
STATES = ORACLE.extend(0, PROMPT)
TEXTS = utf8.scan(0, PROMPT)
TOKEN = 0x41


def report(spec: LogprobSpec | None, start: int = 0, token: int = TOKEN, prompt_len: int = len(PROMPT)) -> RowLogprobs:
    """Report the row that feeds PROMPT from `start` on."""
    step = Step(number=0, extend_slots=np.array([1], np.int32), extend_samples=np.array([True]))
    launched = Launched.empty(step, 0.0)
    launched.states[0], launched.texts[0], launched.positions[0] = STATES[-1], TEXTS[-1], len(PROMPT)
    before = np.concatenate([np.zeros(1, np.uint64), STATES[:-1]])[start:]
    texts = np.concatenate([np.zeros(1, np.uint8), TEXTS[:-1]])[start:]
    launched.fed[0] = Fed(start, PROMPT[start:], before, texts)
    admission = Admission(
        slot=1, uid=1, epoch=0, sampling=SamplingParams(), seed=0, prompt_len=prompt_len, history=PROMPT, logprobs=spec
    )
    found = row_logprobs(ORACLE, admission, launched, 0, token)
    assert found is not None
    return found


def test_nothing_for_who_did_not_ask() -> None:
    admission = Admission(slot=1, uid=1, epoch=0, sampling=None, seed=0, prompt_len=1, history=PROMPT)
    assert row_logprobs(ORACLE, replace(admission), Launched.empty(Step(number=0), 0.0), 0, TOKEN) is None


def test_the_sampled_token_the_best_and_the_chosen() -> None:
    found = report(LogprobSpec(top=4, token_ids=(TOKEN, 7)))
    table = ORACLE.logprobs(STATES[-1:], TEXTS[-1:], np.array([len(PROMPT)], np.int32))[0]
    assert found.value == pytest.approx(float(table[TOKEN]))
    assert found.top_ids.tolist() == np.argsort(-table)[:4].tolist()
    assert found.top_values.tolist() == sorted(table.tolist(), reverse=True)[:4]
    assert found.chosen.tolist() == [table[TOKEN], table[7]]
    assert len(found.prompt_values) == 0


def test_a_row_without_a_token_reports_its_prompt_only() -> None:
    found = report(LogprobSpec(start=0, top=1), token=-1)
    assert (found.value, len(found.top_ids)) == (0.0, 0)
    assert len(found.prompt_values) == len(PROMPT)


@pytest.mark.parametrize(("start", "first", "count"), [(0, 0, 11), (0, 4, 7), (6, 4, 5), (6, 8, 3), (6, 20, 0)])
def test_prompt_positions_begin_where_they_were_asked_for(start: int, first: int, count: int) -> None:
    whole = report(LogprobSpec(start=0, top=2, token_ids=(5,)))
    found = report(LogprobSpec(start=first, top=2, token_ids=(5,)), start)
    assert len(found.prompt_values) == len(found.prompt_chosen) == count
    assert found.prompt_values.tolist() == whole.prompt_values.tolist()[len(PROMPT) - count :]
    assert found.prompt_top_ids.tolist() == whole.prompt_top_ids.tolist()[2 * (len(PROMPT) - count) :]


def test_output_fed_again_after_a_loss_is_no_prompt() -> None:
    assert len(report(LogprobSpec(start=0), prompt_len=5).prompt_values) == 5
