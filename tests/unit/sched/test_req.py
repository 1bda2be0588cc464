"""Req: what is derived from the message that asked for it."""

import pytest

from banyan.memory.ledger.node import Namespace
from banyan.sched.req import Phase, Req
from banyan.wire.request import LogprobSpec, TokenizedEmbeddingReqInput, TokenizedGenerateReqInput
from tests.fakes.grammar import Parity
from tests.fakes.world import embed, generate


def make(ask: TokenizedGenerateReqInput | TokenizedEmbeddingReqInput) -> Req:
    return Req(ask, number=1, now=2.0, deadline=9.0)


def test_a_new_request_waits_and_has_nothing() -> None:
    req = make(generate(5, [1, 2, 3], 4))
    assert (req.uid, req.phase, req.slot, req.reason) == (5, Phase.WAITING, 0, None)
    assert (req.prompt_len, req.max_new_tokens, req.length_limit) == (3, 4, 7)
    assert req.tokens.tolist() == [1, 2, 3]
    assert req.sent == 3
    assert not req.is_embedding


def test_committed_tokens_are_known_and_sent_but_not_prompt() -> None:
    req = make(generate(5, [1, 2, 3], 4, epoch=1, committed=[7, 8]))
    assert req.tokens.tolist() == [1, 2, 3, 7, 8]
    assert (req.prompt_len, req.length_limit, req.sent) == (3, 7, 5)


def test_an_embedding_wants_no_tokens() -> None:
    req = make(embed(6, [1, 2, 3]))
    assert req.is_embedding
    assert (req.max_new_tokens, req.length_limit, req.reusable) == (0, 3, 2)
    assert (req.logprobs, req.hidden) == (None, None)


def test_at_least_one_token_is_computed() -> None:
    assert make(generate(1, [1], 4)).reusable == 0
    assert make(generate(1, [1, 2, 3], 4, committed=[4])).reusable == 3


@pytest.mark.parametrize(("start", "reusable"), [(-1, 4), (0, 0), (2, 2), (99, 4)])
def test_prompt_positions_asked_for_are_computed(start: int, reusable: int) -> None:
    assert make(generate(1, [1, 2, 3, 4, 5], 4, logprobs=LogprobSpec(start=start))).reusable == reusable


def test_prompt_positions_already_reported_need_not_be_computed_again() -> None:
    req = make(generate(1, [1, 2, 3, 4, 5], 4, logprobs=LogprobSpec(start=0)))
    assert req.logprobs is not None
    req.logprobs.prompt_sent = True
    assert req.reusable == 4


def test_a_grammar_catches_up_with_the_committed_output() -> None:
    req = make(generate(1, [9, 9], 8, committed=[2, 3, 4]))
    req.set_grammar(Parity())
    assert req.grammar is not None
    req.grammar.accept(5)
    with pytest.raises(ValueError, match="breaks the grammar"):
        req.grammar.accept(5)


def test_a_grammar_that_refuses_the_committed_output_is_not_attached() -> None:
    req = make(generate(1, [9, 9], 8, committed=[3]))
    with pytest.raises(ValueError, match="breaks the grammar"):
        req.set_grammar(Parity())
    assert req.grammar is None


def test_prefixes_are_shared_under_salt_adapter_and_weights() -> None:
    req = make(generate(1, [1], salt="tenant", lora="a"))
    assert req.namespace(3) == Namespace("tenant", "a", 3)
    assert req.namespace(4) != req.namespace(3)
