"""Both roles agree on which requests travel."""

import numpy as np
import pytest

from banyan.disagg.links.base import Key
from banyan.disagg.pair import key_of, travels
from banyan.sched.req import Req
from banyan.wire.request import (
    LogprobSpec,
    SamplingParams,
    TokenizedEmbeddingReqInput,
    TokenizedGenerateReqInput,
)

PROMPT = np.array([1, 2, 3], np.int32).tobytes()


def make(
    max_new_tokens: int, logprobs: LogprobSpec | None = None, committed: bytes = b"", hidden_states: bool = False
) -> Req:
    sampling = SamplingParams(max_new_tokens=max_new_tokens)
    ask = TokenizedGenerateReqInput(
        uid=5,
        rid="r",
        epoch=2,
        tokens=PROMPT,
        committed=committed,
        sampling=sampling,
        seed=0,
        logprobs=logprobs,
        return_hidden_states=hidden_states,
    )
    return Req(ask, 1, 0.0, 1.0)


def test_key_names_the_incarnation() -> None:
    assert key_of(make(1)) == Key(5, 2)


@pytest.mark.parametrize(
    ("req", "yes"),
    [
        (make(8), True),
        (make(1), True),
        (make(4, committed=PROMPT), True),
        (make(0), False),
        (make(3, committed=PROMPT), False),
        (make(8, LogprobSpec()), False),
        (make(8, hidden_states=True), False),
        (Req(TokenizedEmbeddingReqInput(uid=1, rid="e", tokens=PROMPT), 1, 0.0, 1.0), False),
    ],
)
def test_what_has_decoding_and_no_reports_travels(req: Req, yes: bool) -> None:
    assert travels(req) is yes
