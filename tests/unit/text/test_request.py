"""Tests of banyan.text.request: what is refused, with which words, and what becomes of the rest."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banyan.text.request import (
    EmbeddingReqInput,
    GenerateReqInput,
    Limits,
    RequestError,
    Single,
    complete,
    mix_seed,
    normalise,
)
from banyan.wire.request import (
    GrammarSpec,
    LogprobSpec,
    SamplingParams,
    SessionRef,
    TokenizedEmbeddingReqInput,
    TokenizedGenerateReqInput,
)
from tests.unit.text.wiring import ints

LIMITS = Limits(vocab_size=259, context_length=64, max_req_input_len=60, max_requests=32, is_embedding=True)


def drafts(asked: GenerateReqInput) -> list[TokenizedGenerateReqInput]:
    found = []
    for single in normalise(asked, LIMITS):
        assert isinstance(single.draft, TokenizedGenerateReqInput)
        found.append(single.draft)
    return found


def refusal(**fields: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        normalise(GenerateReqInput(**{"text": "a", **fields}), LIMITS)
    assert str(caught.value).endswith(caught.value.message)
    return caught.value


def finish(
    single: Single, count: int, limits: Limits = LIMITS, uid: int = 7, seed: int = 1
) -> TokenizedGenerateReqInput:
    request = complete(single, ints(*range(count)), uid, "r", seed, limits)
    assert isinstance(request, TokenizedGenerateReqInput)
    return request


# -- what is asked


def test_one_prompt_is_one_request() -> None:
    (single,) = normalise(GenerateReqInput(text="hello", rid="r", priority=3, cache_salt="t", lora_path="l"), LIMITS)
    assert (single.prompt, single.prompt_index, single.copy) == ("hello", 0, 0)
    draft = single.draft
    assert (draft.rid, draft.priority, draft.salt, draft.lora) == ("r", 3, "t", "l")


def test_lists_are_batches_in_order() -> None:
    singles = normalise(GenerateReqInput(text=["a", "b"], sampling_params=[{"n": 2}, {"n": 1}], rid=["x", "y"]), LIMITS)
    assert [(s.prompt, s.prompt_index, s.copy, s.draft.rid) for s in singles] == [
        ("a", 0, 0, "x-0"),
        ("a", 0, 1, "x-1"),
        ("b", 1, 0, "y"),
    ]
    assert [s.prompt for s in normalise(GenerateReqInput(input_ids=[[1, 2], [3]]), LIMITS)] == [ints(1, 2), ints(3)]
    assert [s.prompt for s in normalise(GenerateReqInput(input_ids=[1, 2]), LIMITS)] == [ints(1, 2)]
    assert [d.rid for d in drafts(GenerateReqInput(text=["a", "b"], rid="x"))] == ["x-0", "x-1"]


def test_sampling_params_may_be_written_as_people_do() -> None:
    (draft,) = drafts(
        GenerateReqInput(
            text="a",
            sampling_params={
                "stop": "x",
                "stop_regex": "y+",
                "temperature": None,
                "logit_bias": {"5": 1, 6: -2.5},
                "json_schema": "{}",
            },
        )
    )
    assert draft.sampling == SamplingParams(
        stop=("x",),
        stop_regex=("y+",),
        logit_bias=((5, 1.0), (6, -2.5)),
        grammar=GrammarSpec(kind="json_schema", source="{}"),
    )
    params = SamplingParams(top_k=5, stop=("a", "b"))
    assert drafts(GenerateReqInput(text="a", sampling_params=params))[0].sampling == params


def test_logprobs_and_sessions() -> None:
    asked = GenerateReqInput(
        text=["a", "b"],
        return_logprob=[True, False],
        logprob_start_len=[0, 3],
        top_logprobs_num=2,
        token_ids_logprob=[[1], [2, 3]],
    )
    assert [draft.logprobs for draft in drafts(asked)] == [LogprobSpec(start=0, top=2, token_ids=(1,)), None]
    shared = GenerateReqInput(text="a", return_logprob=True, token_ids_logprob=[4, 5])
    assert drafts(shared)[0].logprobs == LogprobSpec(token_ids=(4, 5))
    reference = SessionRef(id="talk", offset=4)
    for params in (reference, {"id": "talk", "offset": 4}):
        assert drafts(GenerateReqInput(text="a", session_params=params))[0].session == reference


def test_embeddings() -> None:
    (single,) = normalise(EmbeddingReqInput(text="a", rid="e", queue_timeout_s=2.0), LIMITS)
    request = complete(single, ints(1, 2), 5, "e", 0, LIMITS)
    assert request == TokenizedEmbeddingReqInput(uid=5, rid="e", tokens=ints(1, 2), queue_timeout_s=2.0)


def test_a_model_does_what_it_can() -> None:
    words = Limits(vocab_size=9, context_length=9, max_req_input_len=9)
    with pytest.raises(RequestError, match="does not make embeddings") as caught:
        normalise(EmbeddingReqInput(text="a"), words)
    assert caught.value.status == 400
    with pytest.raises(RequestError, match="does not generate text"):
        normalise(
            GenerateReqInput(text="a"), Limits(vocab_size=9, context_length=9, max_req_input_len=9, is_generation=False)
        )


# -- what is refused


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"text": None}, "text", "either text or input_ids"),
        ({"input_ids": [1]}, "text", "either text or input_ids"),
        ({"text": ""}, "text", "not empty"),
        ({"text": []}, "text", "not empty"),
        ({"text": ["a", ""]}, "text", "not empty"),
        ({"text": 5}, "text", "must be a list"),
        ({"text": "\ud800"}, "text", "surrogate"),
        ({"text": None, "input_ids": []}, "input_ids", "not empty"),
        ({"text": None, "input_ids": [[1], []]}, "input_ids", "not empty"),
        ({"text": None, "input_ids": [1, [2]]}, "input_ids", "whole numbers"),
        ({"text": None, "input_ids": [True]}, "input_ids", "whole numbers"),
        ({"text": None, "input_ids": [1.0]}, "input_ids", "whole numbers"),
        ({"text": None, "input_ids": [-1]}, "input_ids", "from 0 to 258"),
        ({"text": None, "input_ids": [259]}, "input_ids", "from 0 to 258"),
        ({"text": None, "input_ids": [2**70]}, "input_ids", "from 0 to 258"),
        ({"text": ["a", "b"], "sampling_params": [{}]}, "sampling_params", "1 entries for 2 prompts"),
        ({"sampling_params": 5}, "sampling_params", "expected `object`"),
        ({"sampling_params": {"top_q": 1}}, "sampling_params", "unknown field `top_q`"),
        ({"sampling_params": {"top_p": 0.0}}, "sampling_params.top_p", "> 0.0"),
        ({"sampling_params": {"temperature": math.nan}}, "sampling_params.temperature", "expected `float`"),
        ({"sampling_params": {"max_new_tokens": True}}, "sampling_params.max_new_tokens", "got `bool`"),
        ({"sampling_params": {"max_new_tokens": 10**5000}}, "sampling_params.max_new_tokens", "expected `int`"),
        ({"sampling_params": {"stop": ["a", "b" * 257]}}, "sampling_params.stop[1]", "length <= 256"),
        ({"sampling_params": {"stop": ["a"] * 17}}, "sampling_params.stop", "length <= 16"),
        ({"sampling_params": {"stop_regex": ["a", "(b"]}}, "sampling_params.stop_regex[1]", "unmatched"),
        ({"sampling_params": {"stop_token_ids": [259]}}, "sampling_params.stop_token_ids", "from 0 to 258"),
        ({"sampling_params": {"logit_bias": {"300": 1}}}, "sampling_params.logit_bias", "from 0 to 258"),
        ({"sampling_params": {"logit_bias": {"9" * 5000: 1}}}, "sampling_params.logit_bias[0][0]", "got `str`"),
        ({"sampling_params": {"logit_bias": {"5": math.inf}}}, "sampling_params.logit_bias", "finite"),
        ({"sampling_params": {"min_new_tokens": 200}}, "sampling_params.min_new_tokens", "more than max_new_tokens"),
        ({"sampling_params": {"regex": "a", "ebnf": "b"}}, "sampling_params.ebnf", "only one grammar"),
        ({"sampling_params": {"n": 17}}, "sampling_params.n", "<= 16"),
        ({"sampling_params": SamplingParams(top_p=7)}, "sampling_params.top_p", "<= 1.0"),
        ({"text": ["a"] * 33}, "", "more than 32 outputs"),
        ({"text": ["a"] * 3, "sampling_params": {"n": 16}}, "", "more than 32 outputs"),
        ({"rid": "r" * 257}, "rid", "length <= 256"),
        ({"text": ["a", "b"], "rid": ["r", "r"]}, "rid", "the same for several"),
        ({"priority": 1001}, "priority", "<= 1000"),
        ({"cache_salt": "s" * 129}, "cache_salt", "length <= 128"),
        ({"lora_path": 5}, "lora_path", "expected `str`"),
        ({"stream": "yes"}, "stream", "expected `bool`"),
        ({"queue_timeout_s": 0.0}, "queue_timeout_s", "> 0.0"),
        ({"queue_timeout_s": math.inf}, "queue_timeout_s", "finite"),
        ({"return_logprob": "yes"}, "return_logprob", "true or false"),
        ({"return_logprob": True, "top_logprobs_num": 21}, "top_logprobs_num", "<= 20"),
        ({"return_logprob": True, "logprob_start_len": -2}, "logprob_start_len", ">= -1"),
        ({"return_logprob": True, "token_ids_logprob": [259]}, "token_ids_logprob", "from 0 to 258"),
        ({"return_logprob": True, "token_ids_logprob": 5}, "token_ids_logprob", "expected `array`"),
        ({"session_params": {"id": ""}}, "session_params.id", "length >= 1"),
        ({"session_params": {"id": "s"}, "text": ["a", "b"]}, "session_params", "one prompt"),
    ],
)
def test_refusals_name_the_field(fields: dict[str, Any], field: str, words: str) -> None:
    error = refusal(**fields)
    assert (error.status, error.field) == (400, field)
    assert words in error.message


def test_a_text_that_is_too_long_is_refused_before_it_is_tokenised() -> None:
    limits = Limits(vocab_size=9, context_length=9, max_req_input_len=9, max_text_chars=3)
    with pytest.raises(RequestError, match="has 4 characters; 3 are allowed"):
        normalise(GenerateReqInput(text="aaaa"), limits)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(list(GenerateReqInput.__dataclass_fields__))
PARAMETERS = st.sampled_from(SamplingParams.__struct_fields__)


@settings(deadline=None)
@given(st.dictionaries(NAMES, JSON, max_size=4), st.dictionaries(PARAMETERS, JSON, max_size=2))
def test_whatever_is_asked_is_served_or_refused(fields: dict[str, Any], sampling: dict[str, Any]) -> None:
    asked = GenerateReqInput(**{"text": "a", "sampling_params": sampling, **fields})
    try:
        for single in normalise(asked, LIMITS):
            request = complete(single, ints(1), 0, "r", 0, LIMITS)
            msgspec.msgpack.decode(msgspec.msgpack.encode(request), type=type(request))
    except RequestError as error:
        assert error.status == 400
        assert len(error.message) < 300


# -- with tokens


def test_output_is_clipped_to_the_context() -> None:
    (single,) = normalise(
        GenerateReqInput(text="a", sampling_params={"max_new_tokens": 100, "min_new_tokens": 50}), LIMITS
    )
    assert finish(single, 10).sampling.max_new_tokens == 54
    assert finish(single, 60).sampling.max_new_tokens == 4
    assert finish(single, 60).sampling.min_new_tokens == 4


def test_a_prompt_that_is_too_long_is_refused() -> None:
    (single,) = normalise(GenerateReqInput(text="a"), LIMITS)
    with pytest.raises(RequestError, match="text: has 61 tokens; a prompt may have 60"):
        finish(single, 61)
    tight = Limits(vocab_size=259, context_length=60, max_req_input_len=60)
    with pytest.raises(RequestError, match="fill the context of 60"):
        finish(single, 60, tight)
    (scored,) = normalise(GenerateReqInput(text="a", sampling_params={"max_new_tokens": 0}), tight)
    assert finish(scored, 60, tight).sampling.max_new_tokens == 0
    with pytest.raises(RequestError, match="input_ids: has no tokens"):
        finish(Single(b"", 0, 0, single.draft), 0)


def test_the_logprob_start_lies_in_the_prompt() -> None:
    (single,) = normalise(GenerateReqInput(text="a", return_logprob=True, logprob_start_len=5), LIMITS)
    assert finish(single, 6).logprobs == LogprobSpec(start=5)
    with pytest.raises(RequestError, match="logprob_start_len: is 5, but the prompt has 5 tokens"):
        finish(single, 5)


def test_text_that_cannot_be_sent_is_refused() -> None:
    (single,) = normalise(GenerateReqInput(text="a", sampling_params={"stop": "\udfff"}), LIMITS)
    with pytest.raises(RequestError, match="surrogate"):
        finish(single, 1)


def test_seeds_are_settled_and_copies_differ() -> None:
    given_seed = normalise(GenerateReqInput(text="a", sampling_params={"n": 3, "sampling_seed": 42}), LIMITS)
    seeds = [finish(single, 1, uid=i).seed for i, single in enumerate(given_seed)]
    assert seeds[0] == 42
    assert len(set(seeds)) == 3
    assert seeds == [finish(single, 1, uid=9).seed for single in given_seed]
    free = normalise(GenerateReqInput(text="a", sampling_params={"n": 2}), LIMITS)
    assert len({finish(single, 1, uid=i).seed for i, single in enumerate(free)}) == 2


@settings(deadline=None)
@given(st.integers(0, 2**63 - 1), st.integers(0, 2**50))
def test_mixed_seeds_are_seeds(seed: int, number: int) -> None:
    assert 0 <= mix_seed(seed, number) < 2**63
    assert mix_seed(seed, number) != mix_seed(seed, number + 1)
