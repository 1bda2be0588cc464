"""Requests and abort messages for tests of the two roles."""

import numpy as np

from banyan.wire.request import AbortReq, LogprobSpec, SamplingParams, TokenizedGenerateReqInput
from banyan.worker.oracle import Oracle
from tests.fakes.pair import Pair
from tests.fakes.server import Shape
from tests.fakes.workload import expected

ORACLE = Oracle(eos_chance=0)


def ask(
    uid: int = 1, prompt: int = 10, max_new_tokens: int = 6, *, epoch: int = 0, logprobs: LogprobSpec | None = None
) -> TokenizedGenerateReqInput:
    """Make a request whose prompt begins like that of every other."""
    tokens = np.arange(97, 97 + prompt, dtype=np.int32)
    return TokenizedGenerateReqInput(
        uid=uid,
        rid=str(uid),
        epoch=epoch,
        tokens=tokens.tobytes(),
        sampling=SamplingParams(max_new_tokens=max_new_tokens, temperature=0.5),
        seed=uid,
        logprobs=logprobs,
    )


def abort(uid: int, *, quiet: bool = False) -> AbortReq:
    """End a request in every incarnation."""
    return AbortReq(uids=np.array([uid], np.int64).tobytes(), below=np.array([99], np.int32).tobytes(), quiet=quiet)


def make_pair(shape: Shape | None = None, polls: int = 3, *, fails: bool = False) -> Pair:
    """Make a pair of equal servers; with `fails`, every transfer does."""
    shape = shape or Shape()
    return Pair(shape, shape, ORACLE, polls, lambda _: fails)


def tokens_of(request: TokenizedGenerateReqInput) -> list[int]:
    """Give the output that the request must have."""
    return expected(request, ORACLE)
