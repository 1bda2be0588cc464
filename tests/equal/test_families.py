"""Every model family gives the log-probabilities that transformers gives, however a prompt is fed."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from banyan.models.heads import LMHead
from tests.equal.networks import (
    CASES,
    PAGE,
    Case,
    Feeder,
    Row,
    build,
    checkpoint,
    make_case,
    make_network,
    prompt,
)

TOLERANCE = 1e-4


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Networks as small as these are slower on two threads than on one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Make each case once for all tests of this file."""
    return make_case(request.param, tmp_path_factory.mktemp("case"))


def assert_equal(found: Tensor, wanted: Tensor) -> None:
    """Compare log-probabilities."""
    assert found.shape == wanted.shape
    assert float((found - wanted).abs().max()) <= TOLERANCE


def test_extend(case: Case) -> None:
    prompts = [prompt(1, 23), prompt(2, 1), prompt(3, 40)]
    found = Feeder(case.model).feed(*(Row(slot + 1, 0, tokens) for slot, tokens in enumerate(prompts)))
    for logprobs, tokens in zip(found, prompts, strict=True):
        assert_equal(logprobs, case.reference(tokens))


def test_decode(case: Case) -> None:
    feeder, prompts = Feeder(case.model), [prompt(4, 20), prompt(5, 33)]
    feeder.feed(Row(1, 0, prompts[0][:8]), Row(2, 0, prompts[1][:21]))
    found = [feeder.feed(Row(1, 8 + i, [prompts[0][8 + i]]), Row(2, 21 + i, [prompts[1][21 + i]])) for i in range(12)]
    for row, start in enumerate((8, 21)):
        wanted = case.reference(prompts[row])
        assert_equal(torch.cat([step[row] for step in found]), wanted[start : start + 12])


def test_chunked_prefill(case: Case) -> None:
    feeder, tokens = Feeder(case.model), prompt(6, 43)
    cuts = [0, 1, 10, 11, 30, 43]
    found = [feeder.feed(Row(1, a, tokens[a:b]))[0] for a, b in pairwise(cuts)]
    assert_equal(torch.cat(found), case.reference(tokens))


def test_prefix_hit(case: Case) -> None:
    """Later rows read pages that another slot wrote, in an earlier step and in the same one."""
    feeder, shared = Feeder(case.model), prompt(7, 5 * PAGE)
    tails = [prompt(8, 9), prompt(9, 1), prompt(10, 17)]
    feeder.share(2, 1, 5 * PAGE)
    feeder.share(3, 1, 5 * PAGE)
    found = feeder.feed(Row(1, 0, shared + tails[0]), Row(2, len(shared), tails[1]))
    found += feeder.feed(Row(3, len(shared), tails[2]))
    assert_equal(found[0], case.reference(shared + tails[0]))
    for logprobs, tail in zip(found[1:], tails[1:], strict=True):
        assert_equal(logprobs, case.reference(shared + tail)[len(shared) :])


def test_mixed_batch(case: Case) -> None:
    """A new prompt, a chunk of another, a row behind a shared prefix and decode rows run in one step."""
    feeder = Feeder(case.model)
    fresh, chunked, behind, decoding = prompt(11, 14), prompt(12, 30), prompt(13, 22), prompt(14, 18)
    feeder.feed(Row(2, 0, chunked[:13]), Row(4, 0, decoding[:17]), Row(5, 0, chunked[:12]))
    feeder.feed(Row(6, 0, behind[: 3 * PAGE]))
    feeder.share(3, 6, 3 * PAGE)
    rows = [
        Row(1, 0, fresh),
        Row(2, 13, chunked[13:25]),
        Row(3, 3 * PAGE, behind[3 * PAGE :]),
        Row(4, 17, decoding[17:]),
        Row(5, 12, chunked[12:13]),
    ]
    found = feeder.feed(*rows)
    for logprobs, row, tokens in zip(found, rows, (fresh, chunked, behind, decoding, chunked), strict=True):
        assert_equal(logprobs, case.reference(tokens)[row.start : row.start + len(row.tokens)])


def test_reference_backend(case: Case) -> None:
    feeder, tokens = Feeder(case.model, backend="reference"), prompt(15, 25)
    found = [feeder.feed(Row(1, a, tokens[a:b]))[0] for a, b in ((0, 16), (16, 24), (24, 25))]
    assert_equal(torch.cat(found), case.reference(tokens))


def test_stages(case: Case) -> None:
    """A network cut into two stages, each with its own KV cache and its share of the checkpoint, is the same one."""
    num_layers = len(case.model.body.layer_range)
    first, last = (Feeder(case.build(layers)) for layers in (range(1), range(1, num_layers)))
    tokens = prompt(16, 24)
    found = []
    for a, b in ((0, 11), (11, 24)):
        batch = first.batch(Row(1, a, tokens[a:b]))
        found += last.logprobs(batch, first.hidden(batch))
    assert_equal(torch.cat(found), case.reference(tokens))


def test_dynamic_rope_is_that_of_generation(tmp_path: Path) -> None:
    """transformers turns the keys of a long prompt by its length, but those of generated tokens by their position.

    Only the second can be cached and shared, so that is what every token gets.
    """
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    network = make_network(
        "LlamaConfig", "AutoModelForCausalLM", {"rope_parameters": rope, "max_position_embeddings": 16}
    )
    card, tensors = checkpoint(network, tmp_path)
    tokens, cache, wanted = prompt(17, 30), None, []
    for token in tokens:
        with torch.inference_mode():
            out = network(torch.tensor([[token]]), past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        wanted.append(torch.log_softmax(out.logits[0], -1))
    assert card.context_length == 32
    assert_equal(Feeder(build(card, tensors)).feed(Row(1, 0, tokens))[0], torch.cat(wanted))


@pytest.mark.parametrize("kind", ["Llama", "Qwen3", "Gemma3Text"])
def test_embeddings_of_decoders(kind: str, tmp_path: Path) -> None:
    network = make_network(f"{kind}Config", "AutoModel", {"head_dim": 16})
    card, tensors = checkpoint(network, tmp_path)
    assert not card.is_generation
    prompts = [prompt(18, 9), prompt(19, 21)]
    found = pooled(Feeder(build(card, tensors)), prompts)
    wanted = [hidden_states(network, tokens)[-1] for tokens in prompts]
    assert_equal(found, torch.nn.functional.normalize(torch.stack(wanted), dim=-1))


@pytest.mark.parametrize("kind", ["Llama", "Qwen2", "Bert"])
def test_scores(kind: str, tmp_path: Path) -> None:
    """A reward model has one label, a classifier several."""
    num_labels = 1 if kind == "Llama" else 3
    network = make_network(f"{kind}Config", "AutoModelForSequenceClassification", {"num_labels": num_labels})
    card, tensors = checkpoint(network, tmp_path)
    prompts = [prompt(20, 9), prompt(21, 21)]
    found = pooled(Feeder(build(card, tensors)), prompts)
    with torch.inference_mode():
        wanted = torch.cat([network(torch.tensor([tokens])).logits for tokens in prompts])
    assert found.shape == (2, num_labels)
    assert_equal(found, wanted)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_encoder(backend: str, tmp_path: Path) -> None:
    network = make_network("BertConfig", "AutoModel", {})
    card, tensors = checkpoint(network, tmp_path)
    feeder, prompts = Feeder(build(card, tensors), backend), [prompt(22, 30), prompt(23, 1), prompt(24, 30)]
    batch = feeder.batch(*(Row(slot + 1, 0, tokens) for slot, tokens in enumerate(prompts)))
    wanted = torch.cat([hidden_states(network, tokens) for tokens in prompts])
    assert_equal(feeder.hidden(batch), wanted)
    firsts = torch.stack([hidden_states(network, tokens)[0] for tokens in prompts])
    assert_equal(pooled(feeder, prompts), torch.nn.functional.normalize(firsts, dim=-1))


def pooled(feeder: Feeder, prompts: list[list[int]]) -> Tensor:
    """Feed prompts whole; return what a head makes of each."""
    batch = feeder.batch(*(Row(slot + 1, 0, tokens) for slot, tokens in enumerate(prompts)))
    head = feeder.model.head
    assert head is not None and not isinstance(head, LMHead)
    return head.forward(feeder.hidden(batch), batch)


def hidden_states(network: Any, tokens: list[int]) -> Tensor:
    """Return transformers' last hidden states."""
    with torch.inference_mode():
        states: Tensor = network(torch.tensor([tokens])).last_hidden_state[0]
    return states
