"""LLMEngine and scores on real processes."""

import asyncio
import logging
import math

import pytest

from banyan.offline import LLMEngine
from banyan.text.request import RequestError
from banyan.text.result import Output
from tests.process.harness import engine, greedy

LONG = {"max_new_tokens": 4000, "ignore_eos": True}


def drain(llm: LLMEngine) -> dict[str, Output]:
    """Step until nothing is unfinished; what came must only ever grow."""
    latest: dict[str, Output] = {}
    while llm.has_unfinished_requests():
        for output in llm.step():
            name = output["meta_info"]["id"]
            before = latest.get(name, {"text": ""})
            assert before.get("meta_info", {}).get("finish_reason") is None
            assert output["text"].startswith(before["text"])
            latest[name] = output
    return latest


@pytest.mark.timeout(60)
def test_an_engine_is_driven_step_by_step(caplog: pytest.LogCaptureFixture) -> None:
    asks = {f"request {i}": greedy(f"prompt {i}", 20 + i) for i in range(6)}
    with engine() as running:
        llm = LLMEngine(running)
        assert llm.step() == []
        for name, ask in asks.items():
            llm.add_request(name, ask.input_ids, ask.sampling)
        found = drain(llm)
        assert {name: output["output_ids"] for name, output in found.items()} == {
            name: ask.tokens[0] for name, ask in asks.items()
        }

        llm.add_request("two", "again", {"n": 2, "max_new_tokens": 3, "ignore_eos": True})
        with pytest.raises(RequestError, match="'two' is empty, or the name of an unfinished"):
            llm.add_request("two", "again")
        assert {name: output["index"] for name, output in drain(llm).items()} == {"two-0": 0, "two-1": 1}
        with pytest.raises(RequestError, match="temperature"):
            llm.add_request("bad", "text", {"temperature": -1})

        for name in ("a", "b", "c"):
            llm.add_request(name, "long", LONG)
        llm.abort_request("a")
        llm.abort_request(iter(["b", "c", "unknown"]))
        ends = [output["meta_info"]["finish_reason"] for output in drain(llm).values()]
        assert [end and end["type"] for end in ends] == ["abort"] * 3

        with caplog.at_level(logging.INFO, logger="banyan.offline"):
            llm.do_log_stats()
        assert "0 requests are unfinished" in caplog.text
        assert "replica 0: 0 running" in caplog.text


@pytest.mark.timeout(60)
def test_scores_are_the_labels_probabilities() -> None:
    labels = [ord("a"), ord("b"), ord("c")]
    with engine() as running:
        scores = running.score("query ", ["one", "two"], labels)
        prompts = [list(b"query one"), list(b"query two")]
        answers = running.generate(
            input_ids=prompts,
            sampling_params={"max_new_tokens": 1, "temperature": 0.0},
            return_logprob=True,
            token_ids_logprob=labels,
        )
        assert isinstance(answers, list)
        chosen = [answer["meta_info"]["output_token_ids_logprobs"][0] for answer in answers]
        wanted = [[math.exp(value) for value, _, _ in row if value is not None] for row in chosen]
        assert scores == [pytest.approx(row) for row in wanted]
        assert running.score(prompts[0][:6], [prompt[6:] for prompt in prompts], labels) == scores
        assert running.score("one", "query ", labels, item_first=True) == scores[:1]
        shares = asyncio.run(running.async_score("query ", ["one", "two"], labels, apply_softmax=True))
        assert shares == [pytest.approx([value / sum(row) for value in row]) for row in wanted]
        with pytest.raises(RequestError, match="label_token_ids"):
            running.score("query", ["item"])
        with pytest.raises(RequestError, match="label_token_ids: must be token ids from 0 to"):
            running.score("query", ["item"], [100_000])
