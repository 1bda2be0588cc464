"""route: frames pass through untouched; reports and deaths stay here."""

from banyan.launch.router import ToController, route
from banyan.route.balance import RoundRobin
from banyan.route.controller import DataParallelController
from banyan.wire.codec import Frames
from banyan.wire.control import LoadReport, PeerLost, PeerRestarted
from banyan.wire.request import AbortAllReq, SamplingParams, TokenizedGenerateReqInput


def test_each_message_gets_where_it_belongs() -> None:
    controller = DataParallelController(2, RoundRobin(2))
    sent: list[tuple[int, Frames]] = []
    request = TokenizedGenerateReqInput(uid=1, rid="", tokens=b"", sampling=SamplingParams(), seed=1)
    taken: list[tuple[ToController, Frames]] = [
        (request, [b"first"]),
        (AbortAllReq(), [b"abort"]),
        (PeerLost(kind="scheduler", index=1), [b"lost"]),
        (request, [b"second"]),
        (PeerRestarted(kind="scheduler", index=1, incarnation=1), [b"back"]),
        (request, [b"third"]),
        (
            LoadReport(replica=0, running=1, waiting=1, waiting_tokens=1, used_tokens=1, total_tokens=9),
            [b"load"],
        ),
    ]
    route(controller, taken, lambda replica, frames: sent.append((replica, frames)))
    assert sent == [(0, [b"first"]), (0, [b"abort"]), (1, [b"abort"]), (0, [b"second"]), (1, [b"third"])]
