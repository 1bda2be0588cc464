"""Inflight: requests that wait for output: who waits for which, n outputs of one call, a bounded number of all."""

import asyncio
import math
from array import array
from collections import deque
from collections.abc import Iterable
from typing import Final

from banyan.text.entry import Accepted
from banyan.text.request import Request, RequestError
from banyan.text.result import HiddenLog, LogprobLog, MetaInfo, Output, end_info
from banyan.wire.base import f32, i32
from banyan.wire.output import Finished, FinishReason
from banyan.wire.request import SessionRef, TokenizedGenerateReqInput

MAX_RETRY_AFTER_S: Final = 60


class ReqState:
    """One request: what has come of it so far."""

    def __init__(self, uid: int, rid: str, name: str, index: int, created_at: float) -> None:
        self.uid: Final = uid
        self.rid: Final = rid
        self.name: Final = name  # the rid of its call, which may have several outputs
        self.index: Final = index  # its place among the outputs of its call
        self.created_at: Final = created_at
        self.ended_at: float | None = None
        self.reason: FinishReason | None = None
        self.output_ids: list[int] = []
        self.prompt = b""
        self.session: SessionRef | None = None
        self._texts: list[str] = []
        self._vector = b""
        self._end: Finished | None = None
        self._logprobs: LogprobLog | None = None
        self._hidden: HiddenLog | None = None

    @property
    def finished(self) -> bool:
        """Tell whether nothing more will come."""
        return self.reason is not None

    def begin(self, request: Request) -> None:
        """Take note of what was sent."""
        self.prompt = request.tokens
        if isinstance(request, TokenizedGenerateReqInput) and request.logprobs is not None:
            self._logprobs = LogprobLog(request.logprobs)
        if isinstance(request, TokenizedGenerateReqInput) and request.return_hidden_states:
            self._hidden = HiddenLog()

    def feed(self, row: Accepted, now: float) -> None:
        """Add new output."""
        self._texts.append(row.text)
        self.output_ids.extend(array("i", row.tokens))
        if row.logprobs is not None and self._logprobs is not None:
            self._logprobs.add(row.logprobs)
        if row.hidden_states is not None and self._hidden is not None:
            self._hidden.add(row.hidden_states)
        if row.finished is not None:
            self._end = row.finished
            self.end(row.finished.reason, now)

    def feed_vector(self, vector: bytes, end: Finished, now: float) -> None:
        """Add the vector of an embedding request."""
        self._vector = vector
        self._end = end
        self.end(end.reason, now)

    def end(self, reason: FinishReason, now: float) -> None:
        """End the request; what it has so far stays."""
        self.reason = reason
        self.ended_at = now

    def output(self, *, indexed: bool) -> Output:
        """Say all there is so far."""
        if len(self._texts) > 1:
            self._texts = ["".join(self._texts)]
        meta = self._meta()
        output: Output = {"text": self._texts[0] if self._texts else "", "output_ids": self.output_ids.copy()}
        if self._vector:
            output = {"embedding": f32(self._vector).tolist()}
        if self._logprobs is not None:
            self._logprobs.put(meta, self.output_ids, i32(self.prompt).tolist())
        if self._hidden is not None:
            self._hidden.put(meta)
        if indexed:
            output["index"] = self.index
        output["meta_info"] = meta
        return output

    def _meta(self) -> MetaInfo:
        end, reason = self._end, self.reason
        count = end.completion_tokens if end is not None else len(self.output_ids)
        meta: MetaInfo = {
            "id": self.rid,
            "finish_reason": end_info(reason, count) if reason is not None else None,
            "prompt_tokens": len(self.prompt) // 4,
            "completion_tokens": count,
            "cached_tokens": end.cached_tokens if end is not None else 0,
        }
        if self.ended_at is not None:
            meta["e2e_latency"] = self.ended_at - self.created_at
        if end is not None:
            meta["retractions"] = end.retractions
            meta["queue_s"] = end.queue_s
            meta["prefill_s"] = end.prefill_s
            meta["decode_s"] = end.decode_s
        return meta


class Gathering:
    """The requests of one call, in order, and the one task that waits for them."""

    def __init__(self, states: list[ReqState], *, stream: bool) -> None:
        self.states: Final = states
        self._stream = stream
        self._ready: dict[int, ReqState] = {}
        self._waiter: asyncio.Future[None] | None = None

    @property
    def finished(self) -> bool:
        """Tell whether all are done."""
        return all(state.finished for state in self.states)

    @property
    def has_news(self) -> bool:
        """Tell whether news() would return at once."""
        return bool(self._ready)

    def notify(self, state: ReqState) -> None:
        """Something has come for a request. Who does not stream is woken at its end only."""
        if self._stream or state.finished:
            self._ready[state.index] = state
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)

    async def news(self) -> list[ReqState]:
        """Wait for output; return the requests that have some. What came meanwhile comes as one."""
        if not self._ready:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        ready, self._ready = list(self._ready.values()), {}
        return ready


class Inflight:
    """All live requests of this front, by number and by name."""

    def __init__(self, capacity: int) -> None:
        self.rid_to_state: Final[dict[str, ReqState]] = {}
        self._gatherings: dict[int, tuple[ReqState, Gathering]] = {}
        self._capacity = capacity
        self._endings: deque[float] = deque(maxlen=256)  # when the latest requests ended
        self._on_empty: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        return len(self._gatherings)

    def find(self, uid: int) -> tuple[ReqState, Gathering] | None:
        """Look a request up."""
        return self._gatherings.get(uid)

    def named(self, rid: str) -> list[ReqState]:
        """List the requests of a name: the one that has it, or all outputs of a call that has it."""
        return [state for state in self.rid_to_state.values() if rid and rid in (state.rid, state.name)]

    def add(self, gathering: Gathering, now: float) -> None:
        """Take up all requests of a call, or refuse them all."""
        states = gathering.states
        excess = len(self) + len(states) - self._capacity
        if excess > 0:
            raise RequestError(
                503,
                "",
                f"{len(self)} requests are live and {self._capacity} are allowed; try again later",
                retry_after_s=self._retry_after_s(excess, now),
            )
        for state in states:
            if state.rid in self.rid_to_state:
                raise RequestError(400, "rid", f"{state.rid!r} is the name of a live request")
        for state in states:
            self.rid_to_state[state.rid] = state
            self._gatherings[state.uid] = (state, gathering)

    def remove(self, states: Iterable[ReqState], now: float) -> None:
        """Forget requests."""
        for state in states:
            del self.rid_to_state[state.rid]
            del self._gatherings[state.uid]
            self._endings.append(now)
        if not self._gatherings:
            for waiter in self._on_empty:
                if not waiter.done():
                    waiter.set_result(None)
            self._on_empty.clear()

    async def wait_empty(self) -> None:
        """Wait until no request is live."""
        while self._gatherings:
            waiter = asyncio.get_running_loop().create_future()
            self._on_empty.append(waiter)
            await waiter

    def _retry_after_s(self, excess: int, now: float) -> int:
        """Guess when there will be room, from how fast requests have ended lately."""
        if not self._endings or now <= self._endings[0]:
            return 1
        per_second = len(self._endings) / (now - self._endings[0])
        return min(MAX_RETRY_AFTER_S, max(1, math.ceil(excess / per_second)))
