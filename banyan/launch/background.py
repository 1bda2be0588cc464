"""LoopThread: an event loop in a thread of its own, so that callers may block, or have a loop themselves."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_END = object()


class LoopThread:
    """Runs coroutines for other threads. Giving up on a result cancels the work."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and block until it is done."""
        if self._is_current():
            work.close()
            raise RuntimeError("this would wait for itself: use the async form inside of a callback")
        future = self._submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine here while the caller's own loop goes on."""
        return await asyncio.wrap_future(self._submit(work))

    def iterate(self, source: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """Turn an async generator into a plain one. Each item is fetched when it is asked for."""
        try:
            while (item := self.call(_next(source))) is not _END:
                yield item
        finally:
            if self._is_current():  # the garbage collector found it here
                self._submit(_close(source))
            elif self._thread.is_alive():
                self.call(_close(source))

    async def stream(self, source: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """Turn an async generator of this loop into one of the caller's."""
        try:
            while (item := await self.wait(_next(source))) is not _END:
                yield item
        finally:
            if self._thread.is_alive():
                await self.wait(_close(source))

    def stop(self) -> None:
        """Cancel what runs, and end the thread; harmless when done twice."""
        if not self._thread.is_alive():
            return
        self.call(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _is_current(self) -> bool:
        return threading.current_thread() is self._thread

    def _submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        if not self._thread.is_alive():  # also in a fork, which has no threads but its own
            work.close()
            raise RuntimeError("it was shut down, or belongs to another process")
        return asyncio.run_coroutine_threadsafe(work, self._loop)


async def _next(source: AsyncGenerator[T, None]) -> T | Any:
    return await anext(source, _END)


async def _close(source: AsyncGenerator[T, None]) -> None:
    await source.aclose()


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
