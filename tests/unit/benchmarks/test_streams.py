"""The ledger of a client: it must see every kind of loss, or nothing that it says is worth anything."""

from typing import Any, cast

import pytest

from banyan.text.result import Output
from banyan.wire.request import SamplingParams
from banyan.worker.oracle import EOS
from benchmarks.streams import Ask, Ledger, logprobs, make_ask, mixed_asks

GREEDY = SamplingParams(temperature=0.0, max_new_tokens=12, ignore_eos=True)


def chunk(ask: Ask, count: int, *, last: bool = False, index: int = 0, **changes: Any) -> Output:
    tokens = ask.tokens[index][:count]
    end = {"type": "length", "length": count} if last else None
    output: dict[str, Any] = {
        "text": ask.texts[index] if last else "",
        "output_ids": tokens,
        "index": index,
        "meta_info": {"finish_reason": end, "completion_tokens": len(tokens)},
    }
    return cast(Output, output | changes)


def judge(ask: Ask, *chunks: Output) -> Ledger:
    ledger = Ledger(ask)
    for one in chunks:
        ledger.take(one)
    ledger.close()
    return ledger


def test_a_whole_answer_is_accepted() -> None:
    ask = make_ask("hello", GREEDY)
    ledger = judge(ask, chunk(ask, 3), chunk(ask, 3), chunk(ask, 12, last=True))
    assert (ledger.findings, ledger.missing, ledger.repeated, ledger.num_tokens()) == ([], 0, 0, 12)


def test_missing_tokens_are_counted() -> None:
    ask = make_ask("hello", GREEDY)
    ledger = judge(ask, chunk(ask, 5))
    assert (ledger.failed, ledger.missing, ledger.repeated) == (True, 7, 0)
    assert "output 0: 7 tokens are missing" in ledger.findings
    assert judge(ask).findings == ["output 0 never came"]


def test_repeated_tokens_are_counted() -> None:
    ask = make_ask("hello", GREEDY)
    tokens = ask.tokens[0] + ask.tokens[0][-2:]
    ledger = judge(ask, chunk(ask, 12, last=True, output_ids=tokens))
    assert (ledger.repeated, ledger.missing) == (2, 0)
    assert "output 0: tokens were repeated" in ledger.findings


def test_a_wrong_token_a_wrong_text_and_a_changed_past_are_found() -> None:
    ask = make_ask("hello", GREEDY)
    wrong = [*ask.tokens[0][:-1], ask.tokens[0][-1] ^ 1]
    assert judge(ask, chunk(ask, 12, last=True, output_ids=wrong)).findings == ["output 0: token 11 is wrong"]
    assert judge(ask, chunk(ask, 12, last=True, text="?")).findings == [
        "output 0 has the right tokens and another text"
    ]
    changed = judge(ask, chunk(ask, 4, text="not this"), chunk(ask, 12, last=True))
    assert changed.findings == ["output 0 was changed after it had been sent"]


def test_an_error_is_a_failure_even_with_all_tokens() -> None:
    ask = make_ask("hello", GREEDY)
    meta = {"finish_reason": {"type": "error", "message": "no"}, "completion_tokens": 12}
    assert judge(ask, chunk(ask, 12, last=True, meta_info=meta)).failed


def test_log_probabilities_must_be_those_of_the_tokens() -> None:
    ask = make_ask("hello", GREEDY, return_logprob=True)
    good = [(float(value), 0, None) for value in logprobs(ask.input_ids, ask.tokens[0])]
    end = {"finish_reason": {"type": "length"}, "completion_tokens": 12}
    assert judge(ask, chunk(ask, 12, last=True, meta_info={**end, "output_token_logprobs": good})).findings == []
    for bad in (good[1:], [good[1], *good[1:]]):
        ledger = judge(ask, chunk(ask, 12, last=True, meta_info={**end, "output_token_logprobs": bad}))
        assert ledger.findings == ["output 0 has wrong log-probabilities"]


def test_the_silence_that_counts_ends_after_the_kill() -> None:
    ledger = Ledger(make_ask("hello", GREEDY), arrivals=[0.0, 5.0, 5.1, 6.1, 6.2])
    assert ledger.silence_s(5.5) == pytest.approx(1.0)


def test_stops_are_worked_out_as_the_engine_does() -> None:
    plain = make_ask("stop here", SamplingParams(temperature=0.0, max_new_tokens=400))
    assert plain.tokens[0][-1] == EOS
    assert plain.texts[0].encode() == bytes(plain.tokens[0][:-1])
    letter = plain.texts[0][10]
    cut = make_ask("stop here", SamplingParams(temperature=0.0, max_new_tokens=400, stop=(letter,)))
    assert letter not in cut.texts[0]
    assert plain.texts[0].startswith(cut.texts[0] + letter)


def test_a_mixed_load_has_all_kinds_and_repeats() -> None:
    asks = mixed_asks(40, 30, seed=1)
    assert [ask.tokens for ask in asks] == [ask.tokens for ask in mixed_asks(40, 30, seed=1)]
    assert sum(ask.sampling.temperature == 0.0 for ask in asks) >= 16
    assert sum(ask.sampling.n == 4 and ask.return_logprob for ask in asks) == 6
    assert any(ask.sampling.stop for ask in asks)
