"""DataParallelController: who gets what, who is dead, who stays where."""

import numpy as np
import pytest

from banyan.route.balance import RoundRobin
from banyan.route.controller import DataParallelController, Homes, num_tokens
from banyan.wire.control import (
    CloseSessionReqInput,
    FlushCacheReqInput,
    LoadReport,
    PeerLost,
    PeerRestarted,
    ToScheduler,
)
from banyan.wire.request import (
    AbortAllReq,
    AbortReq,
    ProbeReq,
    SamplingParams,
    SessionRef,
    TokenizedEmbeddingReqInput,
    TokenizedGenerateReqInput,
)


def request(uid: int, epoch: int = 0, session: str = "") -> TokenizedGenerateReqInput:
    return TokenizedGenerateReqInput(
        uid=uid,
        rid=str(uid),
        epoch=epoch,
        tokens=np.zeros(3, np.int32).tobytes(),
        committed=np.zeros(2, np.int32).tobytes(),
        sampling=SamplingParams(),
        seed=1,
        session=SessionRef(id=session) if session else None,
    )


def controller(num_replicas: int = 3) -> DataParallelController:
    return DataParallelController(num_replicas, RoundRobin(num_replicas))


def lost(replica: int) -> PeerLost:
    return PeerLost(kind="scheduler", index=replica)


def back(replica: int) -> PeerRestarted:
    return PeerRestarted(kind="scheduler", index=replica, incarnation=1)


def test_a_request_goes_to_one_replica() -> None:
    core = controller()
    embedding = TokenizedEmbeddingReqInput(uid=9, rid="", tokens=b"\0" * 8)
    assert [core.dispatch(request(uid)) for uid in range(3)] == [(0,), (1,), (2,)]
    assert core.dispatch(embedding) == (0,)
    assert (num_tokens(request(1)), num_tokens(embedding)) == (5, 2)


@pytest.mark.parametrize(
    "message",
    [
        AbortReq(uids=b"", below=b""),
        AbortAllReq(),
        ProbeReq(front=0, uids=b"", epochs=b""),
        FlushCacheReqInput(front=0, call=1),
        CloseSessionReqInput(front=0, call=1, id="s"),
    ],
)
def test_everything_else_goes_to_all_even_to_one_that_is_being_restarted(message: ToScheduler) -> None:
    core = controller()
    core.peer(lost(1))
    assert core.dispatch(message) == (0, 1, 2)


def test_requests_go_to_the_living() -> None:
    core = controller()
    core.peer(lost(1))
    assert list(core.alive) == [0, 2]
    assert {core.dispatch(request(uid))[0] for uid in range(6)} == {0, 2}
    core.peer(back(1))
    assert list(core.alive) == [0, 1, 2]
    assert {core.dispatch(request(uid))[0] for uid in range(6, 12)} == {0, 1, 2}


def test_with_nobody_alive_a_replica_is_still_named() -> None:
    core = controller(2)
    core.peer(lost(0))
    core.peer(lost(1))
    assert {core.dispatch(request(uid))[0] for uid in range(4)} == {0, 1}


def test_news_of_others_change_nothing() -> None:
    core = controller(2)
    core.peer(PeerLost(kind="detokenizer", index=0))
    core.peer(lost(7))
    core.report(LoadReport(replica=7, running=0, waiting=0, waiting_tokens=0, used_tokens=0, total_tokens=1))
    assert list(core.alive) == [0, 1]


def test_a_request_that_enters_again_goes_home_if_home_lives() -> None:
    core = controller()
    (home,) = core.dispatch(request(5))
    assert [core.dispatch(request(5, epoch)) for epoch in (1, 2, 3)] == [(home,)] * 3
    core.peer(lost(home))
    (refuge,) = core.dispatch(request(5, 4))
    assert refuge != home
    core.peer(back(home))
    assert core.dispatch(request(5, 5)) == (refuge,)


def test_a_session_stays_until_it_is_closed_or_its_replica_dies() -> None:
    core = controller()
    (home,) = core.dispatch(request(0, session="s"))
    assert [core.dispatch(request(uid, session="s")) for uid in range(1, 5)] == [(home,)] * 4
    core.peer(lost(home))
    (refuge,) = core.dispatch(request(6, session="s"))
    assert refuge != home
    assert core.dispatch(request(7, session="s")) == (refuge,)
    core.dispatch(CloseSessionReqInput(front=0, call=1, id="s"))
    assert core.dispatch(request(8, session="s")) == (3 - home - refuge,)  # a new session of that name: round robin


def test_homes_are_bounded() -> None:
    homes: Homes[str] = Homes(2)
    for number, key in enumerate("abc"):
        homes.put(key, number)
    assert (len(homes), homes.get("a"), homes.get("c")) == (2, None, 2)
    homes.put("b", 5)
    homes.put("d", 6)
    assert (homes.get("b"), homes.get("c")) == (5, None)
    homes.drop("b")
    assert homes.get("b") is None
