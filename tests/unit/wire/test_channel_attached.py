"""Tests of channels that deliver to an event loop."""

import asyncio
import threading

from banyan.wire.channel import private_path
from banyan.wire.control import FromChild
from tests.unit.wire.ends import CODEC, DEADLINE_S, Pull, Push, said


class Sink:
    """Gathers what an attached channel delivers."""

    def __init__(self, fail_on: int = -1) -> None:
        self.got: list[FromChild] = []
        self._came = asyncio.Event()
        self._fail_on = fail_on

    def __call__(self, batch: list[FromChild]) -> None:
        self.got += batch
        self._came.set()
        if said(self._fail_on) in batch:
            raise ValueError("a consumer's own error")

    async def reach(self, count: int) -> list[FromChild]:
        """Wait until so many messages came."""
        async with asyncio.timeout(DEADLINE_S):
            while len(self.got) < count:
                self._came.clear()
                await self._came.wait()
        return self.got


def test_attached_messages_that_came_before_are_delivered(ends: tuple[Pull, Push]) -> None:
    pull, push = ends
    push.send(said(0))
    push.send(said(1))
    assert pull.wait(DEADLINE_S)
    pull.drain(limit=1)  # now the descriptor has signalled, and will not again

    async def main() -> list[FromChild]:
        sink = Sink()
        pull.attach(sink)
        return await sink.reach(1)

    assert asyncio.run(main()) == [said(1)]


def test_attached_no_message_is_left_behind_by_bursts_and_pauses(ends: tuple[Pull, Push]) -> None:
    pull, push = ends
    bursts = [1, 1, 2500, 1, 1024, 1025, 3] * 3
    numbers = iter(range(sum(bursts)))
    paused = threading.Barrier(2)

    def send() -> None:  # from another thread, as another process would
        for burst in bursts:
            for _ in range(burst):
                push.send(said(next(numbers)))
            paused.wait(DEADLINE_S)

    async def main() -> list[FromChild]:
        sink = Sink()
        pull.attach(sink)
        total = 0
        for burst in bursts:
            total += burst
            await sink.reach(total)
            await asyncio.to_thread(paused.wait, DEADLINE_S)
        return sink.got

    sender = threading.Thread(target=send)
    sender.start()
    got = asyncio.run(main())
    sender.join()
    assert got == [said(number) for number in range(sum(bursts))]


def test_attached_a_flood_leaves_the_loop_time_for_others(ends: tuple[Pull, Push]) -> None:
    pull, push = ends
    for number in range(5000):
        push.send(said(number))

    async def main() -> int:
        sink = Sink()
        turns = 0
        pull.attach(sink)
        while len(sink.got) < 5000:
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert asyncio.run(asyncio.wait_for(main(), DEADLINE_S)) >= 5


def test_attached_an_error_in_the_consumer_does_not_stop_delivery(ends: tuple[Pull, Push]) -> None:
    pull, push = ends
    for number in range(3000):
        push.send(said(number))

    async def main() -> tuple[list[FromChild], list[str]]:
        errors: list[str] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(str(context["exception"])))
        sink = Sink(fail_on=10)
        pull.attach(sink)
        return await sink.reach(3000), errors

    got, errors = asyncio.run(main())
    assert got == [said(number) for number in range(3000)]
    assert errors == ["a consumer's own error"]


def test_attached_bad_frames_hide_no_good_ones(ends: tuple[Pull, Push]) -> None:
    pull, push = ends
    for _ in range(1024):  # a whole drain of nothing good
        push.send_raw([b"\xc1"])
    push.send(said(1))

    async def main() -> list[FromChild]:
        sink = Sink()
        pull.attach(sink)
        return await sink.reach(1)

    assert asyncio.run(main()) == [said(1)]
    assert pull.bad_frames == 1024


def test_detached_a_channel_keeps_what_comes(ends: tuple[Pull, Push]) -> None:
    pull, push = ends

    async def main() -> list[FromChild]:
        sink = Sink()
        pull.attach(sink)
        push.send(said(1))
        await sink.reach(1)
        pull.detach()
        push.send(said(2))
        assert await asyncio.to_thread(pull.wait, DEADLINE_S)
        return sink.got

    assert asyncio.run(main()) == [said(1)]
    assert pull.drain() == [said(2)]


def test_a_channel_may_be_closed_while_attached_and_after_its_loop(address: str) -> None:
    async def attach(pull: Pull, close: bool) -> None:
        pull.attach(Sink())
        if close:
            pull.close()
        await asyncio.sleep(0)  # the first look, scheduled by attach, finds nothing to do

    for close in (True, False):
        pull = Pull(address, CODEC)
        asyncio.run(attach(pull, close))
        pull.close()
        assert not private_path(address).exists()
