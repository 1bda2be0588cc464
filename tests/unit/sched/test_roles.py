"""Unified: the role of a plain server."""

import numpy as np

from banyan.memory.ledger.cache import RadixCache
from banyan.sched.limits import Limits
from banyan.sched.req import Phase, Req
from banyan.sched.roles import Role, Unified
from banyan.sched.roster import Roster
from banyan.wire.request import TokenizedEmbeddingReqInput, TokenizedGenerateReqInput
from tests.fakes.world import embed, generate


def launched(ask: TokenizedGenerateReqInput | TokenizedEmbeddingReqInput) -> tuple[Roster, Req]:
    """Let a request arrive and tell the role that its whole prompt is in a step."""
    roster = Roster(Limits(num_slots=2, context_length=64, token_budget=16), RadixCache(8, 4, 2, 16))
    role: Role = Unified(roster)
    req = Req(ask, 1, 0.0, 9.0)
    role.arrive(req)
    assert req in roster.queue
    assert roster.occupy(req)
    roster.queue.remove(req)
    roster.admit(req, 0.0)
    roster.start_prefill(req)
    assert roster.cache.reserve(np.asarray([req.slot], np.int32), np.asarray([len(req.tokens)], np.int32))
    role.prompt_launched(req)
    return roster, req


def test_it_speaks_and_waits_for_nobody() -> None:
    roster, req = launched(generate(1, [1, 2]))
    role = Unified(roster)
    assert role.speaks
    assert not role.poll(0.0)
    role.prompt_committed(req)
    role.gone(req)
    assert req.phase is Phase.DECODE


def test_a_request_decodes_once_its_prompt_is_launched() -> None:
    roster, req = launched(generate(1, [1, 2], 1))
    assert list(roster.running.values()) == [req]
    assert req.phase is Phase.DECODE


def test_what_wants_no_output_is_held_until_its_step_is_in() -> None:
    for ask in (generate(1, [1, 2], 0), embed(1, [1, 2]), generate(1, [1, 2], 1, committed=[5])):
        roster, req = launched(ask)
        assert not roster.running
        assert req.phase is Phase.HELD
