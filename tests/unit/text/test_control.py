"""Tests of banyan.text.control."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from banyan.text.control import ControlCalls, ControlTimeout
from banyan.wire.control import (
    CloseSessionReqInput,
    ContinueGenerationReqInput,
    ControlReply,
    FlushCacheReqInput,
    GetServerInfoReq,
    OpenSessionReqInput,
    PauseGenerationReqInput,
    ProfileReq,
    ToScheduler,
)


class Replicas:
    """Two replicas that answer, or do not."""

    def __init__(self, answering: tuple[int, ...] = (1, 0), timeout_s: float = 5.0) -> None:
        self.sent: list[ToScheduler] = []
        self.alive = {0, 1}
        self.answering = answering
        self.calls = ControlCalls(3, lambda: self.alive, self.send, timeout_s)

    def send(self, message: ToScheduler) -> None:
        self.sent.append(message)
        for replica in self.answering:
            call = len(self.sent) - 1
            reply = ControlReply(front=3, call=call, replica=replica, message=f"from {replica}")
            asyncio.get_running_loop().call_soon(self.calls.hear, reply)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda calls: calls.flush_cache(), FlushCacheReqInput(front=3, call=0)),
        (lambda calls: calls.get_server_info(), GetServerInfoReq(front=3, call=0)),
        (lambda calls: calls.pause_generation(retract=True), PauseGenerationReqInput(front=3, call=0, retract=True)),
        (lambda calls: calls.continue_generation(), ContinueGenerationReqInput(front=3, call=0)),
        (lambda calls: calls.open_session("s", 9), OpenSessionReqInput(front=3, call=0, id="s", capacity=9)),
        (lambda calls: calls.close_session("s"), CloseSessionReqInput(front=3, call=0, id="s")),
        (lambda calls: calls.profile("stop"), ProfileReq(front=3, call=0, action="stop")),
    ],
)
def test_a_call_gathers_a_reply_of_each_replica(
    call: Callable[[ControlCalls], Awaitable[list[ControlReply]]], message: ToScheduler
) -> None:
    async def main() -> tuple[list[str], list[ToScheduler]]:
        replicas = Replicas()
        return [reply.message for reply in await call(replicas.calls)], replicas.sent

    assert asyncio.run(main()) == (["from 0", "from 1"], [message])


def test_calls_do_not_mix() -> None:
    async def main() -> list[list[int]]:
        replicas = Replicas()
        both = await asyncio.gather(replicas.calls.flush_cache(), replicas.calls.flush_cache())
        return [[reply.call for reply in replies] for replies in both]

    assert asyncio.run(main()) == [[0, 0], [1, 1]]


def test_who_does_not_answer_is_named() -> None:
    async def main() -> None:
        replicas = Replicas(answering=(0, 0), timeout_s=0.01)
        with pytest.raises(ControlTimeout, match=r"no answer from replica 1 within 0\.01 s"):
            await replicas.calls.flush_cache()
        replicas.calls.hear(ControlReply(front=3, call=0, replica=1))
        replicas.alive = set()
        with pytest.raises(ControlTimeout, match="no replica is left"):
            await replicas.calls.flush_cache()

    asyncio.run(main())
