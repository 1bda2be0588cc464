"""LoopThread: blocking and async callers, cancellation, generators, the end."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator

import pytest

from banyan.launch.background import LoopThread

pytestmark = pytest.mark.timeout(20)


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    thread = LoopThread("test")
    yield thread
    thread.stop()


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


class Counting:
    """A generator that notes how it ended."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    async def run(self, count: int) -> AsyncGenerator[int, None]:
        try:
            for number in range(count):
                yield number
                await asyncio.sleep(0)
        finally:
            self.closed.set()


def test_a_call_blocks_for_its_result(loop: LoopThread) -> None:
    assert loop.call(double(4)) == 8


def test_an_error_reaches_the_caller(loop: LoopThread) -> None:
    async def fail() -> None:
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        loop.call(fail())


def test_it_works_under_a_running_loop_of_the_caller(loop: LoopThread) -> None:
    async def main() -> tuple[int, int, list[int]]:
        items = [item async for item in loop.stream(Counting().run(3))]
        return loop.call(double(1)), await loop.wait(double(2)), items

    assert asyncio.run(main()) == (2, 4, [0, 1, 2])


def test_waiting_for_itself_is_refused(loop: LoopThread) -> None:
    async def inner() -> int:
        return loop.call(double(1))

    with pytest.raises(RuntimeError, match="wait for itself"):
        loop.call(inner())


def test_a_plain_generator_is_closed_when_its_reader_leaves(loop: LoopThread) -> None:
    source = Counting()
    items = loop.iterate(source.run(100))
    assert [next(items), next(items)] == [0, 1]
    items.close()
    assert source.closed.is_set()


def test_a_cancelled_caller_cancels_the_work(loop: LoopThread) -> None:
    started, cancelled = threading.Event(), threading.Event()

    async def endless() -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def main() -> None:
        task = asyncio.create_task(loop.wait(endless()))
        while not started.is_set():
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert cancelled.wait(5)


def test_stopping_cancels_what_runs_and_may_be_repeated() -> None:
    thread = LoopThread("test")
    errors: list[BaseException] = []

    async def endless() -> None:
        await asyncio.Event().wait()

    def caller() -> None:
        try:
            thread.call(endless())
        except BaseException as error:
            errors.append(error)

    waiting = threading.Thread(target=caller)
    waiting.start()
    thread.call(double(1))
    thread.stop()
    thread.stop()
    waiting.join(5)
    assert not waiting.is_alive()
    assert len(errors) == 1


def test_after_the_end_nothing_hangs() -> None:
    thread = LoopThread("test")
    items = thread.iterate(Counting().run(3))
    assert next(items) == 0
    thread.stop()
    items.close()
    with pytest.raises(RuntimeError, match="was shut down"):
        thread.call(double(1))
    with pytest.raises(RuntimeError, match="was shut down"):
        asyncio.run(thread.wait(double(1)))


def test_a_generator_that_the_collector_finds_in_the_loop_is_closed(loop: LoopThread) -> None:
    source = Counting()
    kept = [loop.iterate(source.run(3))]
    next(kept[0])

    async def forget() -> None:
        kept.clear()

    loop.call(forget())
    assert source.closed.wait(5)
