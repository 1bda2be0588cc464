"""ControlCalls: calls to every replica that gather one reply from each, or say who did not answer."""

import asyncio
from collections.abc import Callable, Set
from typing import Final, Literal

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

TIMEOUT_S: Final = 30.0


class ControlTimeout(RuntimeError):
    """Some replica did not answer in time."""


class _Call:
    """Replies to one call."""

    def __init__(self, expected: Set[int]) -> None:
        self._expected = expected
        self.replies: dict[int, ControlReply] = {}
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def missing(self) -> list[int]:
        return sorted(self._expected - self.replies.keys())

    def hear(self, reply: ControlReply) -> None:
        self.replies[reply.replica] = reply
        if not self.missing and not self.done.done():
            self.done.set_result(None)


class ControlCalls:
    """Numbers calls, sends them, and pairs replies with them."""

    def __init__(
        self,
        front: int,
        replicas: Callable[[], Set[int]],
        send: Callable[[ToScheduler], object],
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._front = front
        self._replicas = replicas
        self._send = send
        self._timeout_s = timeout_s
        self._next = 0
        self._calls: dict[int, _Call] = {}

    def hear(self, reply: ControlReply) -> None:
        """Take a reply; one that nobody waits for any more is dropped."""
        call = self._calls.get(reply.call)
        if call is not None:
            call.hear(reply)

    async def flush_cache(self) -> list[ControlReply]:
        """Forget every cached prefix that no request holds."""
        return await self._gather(lambda call: FlushCacheReqInput(front=self._front, call=call))

    async def get_server_info(self) -> list[ControlReply]:
        """Ask for the state of each replica."""
        return await self._gather(lambda call: GetServerInfoReq(front=self._front, call=call))

    async def pause_generation(self, *, retract: bool = False) -> list[ControlReply]:
        """Stop planning."""
        return await self._gather(lambda call: PauseGenerationReqInput(front=self._front, call=call, retract=retract))

    async def continue_generation(self) -> list[ControlReply]:
        """Plan again."""
        return await self._gather(lambda call: ContinueGenerationReqInput(front=self._front, call=call))

    async def open_session(self, name: str, capacity: int) -> list[ControlReply]:
        """Open a session on each replica."""
        return await self._gather(
            lambda call: OpenSessionReqInput(front=self._front, call=call, id=name, capacity=capacity)
        )

    async def close_session(self, name: str) -> list[ControlReply]:
        """Close a session on each replica."""
        return await self._gather(lambda call: CloseSessionReqInput(front=self._front, call=call, id=name))

    async def profile(self, action: Literal["start", "stop"]) -> list[ControlReply]:
        """Start or stop the profilers."""
        return await self._gather(lambda call: ProfileReq(front=self._front, call=call, action=action))

    async def _gather(self, make: Callable[[int], ToScheduler]) -> list[ControlReply]:
        """Send a call and wait for one reply of each replica, in the order of replicas."""
        expected = frozenset(self._replicas())
        if not expected:
            raise ControlTimeout("no replica is left to answer")
        number, self._next = self._next, self._next + 1
        call = self._calls[number] = _Call(expected)
        try:
            self._send(make(number))
            async with asyncio.timeout(self._timeout_s):
                await call.done
        except TimeoutError:
            names = ", ".join(map(str, call.missing))
            raise ControlTimeout(f"no answer from replica {names} within {self._timeout_s:g} s") from None
        finally:
            del self._calls[number]
        return [reply for _, reply in sorted(call.replies.items())]
