"""LLMEngine: an engine that is driven step by step: add requests, take what changed, until nothing is unfinished."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack

from banyan.engine import Engine
from banyan.text.inflight import Gathering
from banyan.text.request import GenerateReqInput, Params, RequestError
from banyan.text.result import Output

logger = logging.getLogger(__name__)


class LLMEngine:
    """Follows the requests of one thread on a running engine, whose owner ends it.

    with Engine("oracle") as engine:
        llm = LLMEngine(engine)
        llm.add_request("a", "hello", {"max_new_tokens": 8})
        while llm.has_unfinished_requests():
            for output in llm.step(): ..."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._left: dict[str, int] = {}  # by name: outputs whose end was not taken yet
        self._news: dict[tuple[str, int], Output] = {}  # what changed since the last step
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def add_request(self, request_id: str, prompt: str | Sequence[int], params: Params | None = None) -> None:
        """Send a request, its prompt as text or as token ids. Raises RequestError if it cannot be served."""
        if not request_id or request_id in self._left:
            raise RequestError(400, "request_id", f"{request_id!r} is empty, or the name of an unfinished request")
        text, ids = (prompt, None) if isinstance(prompt, str) else (None, prompt)
        asked = GenerateReqInput(text=text, input_ids=ids, sampling_params=params, rid=request_id, stream=True)
        self._engine.loop.call(self._add(request_id, asked))

    def step(self) -> list[Output]:
        """Wait until requests have changed; return what each has so far. Its name is meta_info["id"], and with n
        outputs, each of which comes by itself, "name-0" and so on. The last one has a finish_reason."""
        return self._engine.loop.call(self._step()) if self._left else []

    def abort_request(self, request_id: str | Iterable[str]) -> None:
        """End requests; the next step returns what there is of them. Names that are unknown are ignored."""
        names = [request_id] if isinstance(request_id, str) else list(request_id)
        for name in names:
            if name in self._left:
                self._engine.abort(name)

    def has_unfinished_requests(self) -> bool:
        """Tell whether there is more to come from step()."""
        return bool(self._left)

    def do_log_stats(self) -> None:
        """Log how the engine is doing, a line for each replica."""
        logger.info("%d requests are unfinished", len(self._left))
        for replica, info in enumerate(self._engine.get_server_info()["replicas"]):
            logger.info(
                "replica %d: %d running, %d waiting, %d of %d pages held, %d cached; tokens so far: %d in, %d out",
                replica,
                info.running,
                info.waiting,
                info.held_pages,
                info.total_pages,
                info.cached_pages,
                info.prompt_tokens,
                info.output_tokens,
            )

    async def _add(self, name: str, asked: GenerateReqInput) -> None:
        entry = AsyncExitStack()
        gathering = await entry.enter_async_context(self._engine.tokenizer_manager.entered(asked))
        self._left[name] = len(gathering.states)
        task = asyncio.create_task(self._follow(name, gathering, entry))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow(self, name: str, gathering: Gathering, entry: AsyncExitStack) -> None:
        """Collect what comes of one request; each of its outputs is told to have ended once."""
        async with entry:
            while not gathering.finished or gathering.has_news:
                for state in await gathering.news():
                    self._news[name, state.index] = state.output(indexed=len(gathering.states) > 1)
                self._changed.set()

    async def _step(self) -> list[Output]:
        await self._changed.wait()
        self._changed.clear()
        news, self._news = self._news, {}
        for (name, _), output in news.items():
            self._left[name] -= output["meta_info"]["finish_reason"] is not None
            if not self._left[name]:
                del self._left[name]
        return list(news.values())
