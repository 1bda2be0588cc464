"""Tests of banyan.worker.worker: the real scheduler on a real network gives what the network gives alone."""

import numpy as np
import pytest
import torch

from banyan.plan import Admission, Step
from banyan.wire.control import ProfileReq, ToScheduler
from banyan.wire.request import (
    LogprobSpec,
    SamplingParams,
    TokenizedEmbeddingReqInput,
    TokenizedGenerateReqInput,
)
from tests.unit.worker.networks import network, plain_greedy, plain_hidden, plain_logits, serve, worker

GREEDY = SamplingParams(max_new_tokens=9, temperature=0)


def _prompts(count: int) -> list[list[int]]:
    rng = np.random.default_rng(7)
    shared = rng.integers(0, 20, 12).tolist()
    return [shared[: rng.integers(0, 13)] + rng.integers(0, 20, rng.integers(1, 9)).tolist() for _ in range(count)]


def _ask(
    uid: int,
    prompt: list[int],
    sampling: SamplingParams = GREEDY,
    logprobs: LogprobSpec | None = None,
    hidden_states: bool = False,
) -> TokenizedGenerateReqInput:
    tokens = np.array(prompt, np.int32).tobytes()
    return TokenizedGenerateReqInput(
        uid=uid,
        rid=str(uid),
        tokens=tokens,
        sampling=sampling,
        seed=uid,
        stream=True,
        logprobs=logprobs,
        return_hidden_states=hidden_states,
    )


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("family", ["llama", "gemma3", "deepseek_v2"])
def test_greedy_tokens_are_those_of_the_network_alone(family: str, depth: int) -> None:
    model = network(family)
    prompts = _prompts(8)
    messages: list[ToScheduler] = [_ask(uid, prompt) for uid, prompt in enumerate(prompts)]
    heard = serve(model, messages, depth=depth)
    for uid, prompt in enumerate(prompts):
        assert heard.tokens(uid) == plain_greedy(model, prompt, 9)


def test_seeded_tokens_do_not_depend_on_company_or_chunks() -> None:
    model = network("llama")
    sampling = SamplingParams(max_new_tokens=9, temperature=0.8, top_p=0.9)
    prompts = _prompts(6)
    messages: list[ToScheduler] = [_ask(uid, prompt, sampling) for uid, prompt in enumerate(prompts)]
    together = serve(model, messages, token_budget=7)
    for uid, prompt in enumerate(prompts):
        alone = serve(model, [_ask(uid, prompt, sampling)], token_budget=64)
        assert together.tokens(uid) == alone.tokens(uid)


@pytest.mark.parametrize("start", [0, 3])
def test_log_probabilities_of_prompt_and_output(start: int) -> None:
    model = network("llama")
    prompts = _prompts(5)
    spec = LogprobSpec(start=start, top=2, token_ids=(4,))
    messages: list[ToScheduler] = [_ask(uid, prompt, logprobs=spec) for uid, prompt in enumerate(prompts)]
    heard = serve(model, messages)
    for uid, prompt in enumerate(prompts):
        said = heard.heard[uid, 0]
        tokens = prompt + said.tokens
        values = torch.log_softmax(plain_logits(model, tokens), dim=-1)
        wanted = [float(values[i, tokens[i + 1]]) for i in range(start, len(tokens) - 1)]
        got = said.prompt_logprobs + said.logprobs
        assert len(said.prompt_logprobs) == max(0, len(prompt) - 1 - start)
        assert np.allclose(got, wanted[len(wanted) - len(got) :], atol=1e-4)


@pytest.mark.parametrize("depth", [1, 2])
def test_hidden_states_are_those_that_the_tokens_logits_came_from(depth: int) -> None:
    model = network("llama")
    prompts = _prompts(5)
    messages: list[ToScheduler] = [_ask(uid, prompt, hidden_states=uid != 2) for uid, prompt in enumerate(prompts)]
    heard = serve(model, messages, depth=depth)
    for uid, prompt in enumerate(prompts):
        said = heard.heard[uid, 0]
        if uid == 2:
            assert said.hidden_states == []
            continue
        wanted = plain_hidden(model, prompt + said.tokens).numpy()[len(prompt) - 1 : -1]
        assert len(said.hidden_states) == len(said.tokens)
        assert np.allclose(said.hidden_states, wanted, atol=1e-4)


def test_embeddings_are_those_of_the_network_alone() -> None:
    model = network("llama", architectures=["LlamaModel"])
    prompts = _prompts(4)
    messages: list[ToScheduler] = [
        TokenizedEmbeddingReqInput(uid=uid, rid=str(uid), tokens=np.array(prompt, np.int32).tobytes())
        for uid, prompt in enumerate(prompts)
    ]
    together = serve(model, messages, token_budget=6)
    for uid, message in enumerate(messages):
        alone = serve(model, [message], token_budget=64).heard[uid, 0].vector
        vector = together.heard[uid, 0].vector
        assert vector is not None
        assert alone is not None
        assert np.isclose(np.linalg.norm(vector), 1, atol=1e-5)
        assert np.allclose(vector, alone, atol=1e-5)


def test_a_row_that_is_not_a_number_fails_alone() -> None:
    model = network("llama")
    embed = model.body.embed
    assert embed is not None
    embed.weight[19] = torch.nan
    prompts = [[1, 2, 3], [4, 19, 5], [6, 7]]
    messages: list[ToScheduler] = [_ask(uid, prompt) for uid, prompt in enumerate(prompts)]
    heard = serve(model, messages)
    reasons = [heard.reason(uid) for uid in range(3)]
    assert [reason.kind for reason in reasons if reason is not None] == ["length", "error", "length"]
    assert heard.tokens(0) == plain_greedy(model, prompts[0], 9)


def test_recovery_forgets_slots_and_control_is_not_for_it() -> None:
    built = worker(network("llama"))
    history = np.array([1, 2], np.int32)
    admission = Admission(slot=1, uid=1, epoch=0, sampling=GREEDY, seed=0, prompt_len=2, history=history)
    step = Step(
        number=0,
        extend_slots=np.array([1], np.int32),
        extend_starts=np.array([0], np.int32),
        extend_lengths=np.array([2], np.int32),
        extend_tokens=history,
        extend_samples=np.array([True]),
        page_slots=np.array([1], np.int32),
        page_indices=np.array([0], np.int32),
        page_ids=np.array([1], np.int32),
        admissions=(admission,),
    )
    first = built.sample(built.forward(step), None)
    assert first.ready()
    built.recover()
    assert built.sample(built.forward(step), None).wait().tokens.tolist() == first.wait().tokens.tolist()
    assert built.control(ProfileReq(front=0, call=1, action="start")) is None
