"""TokenizerManager: normalise, tokenize, send, and stream each request's output; what is lost it enters again."""

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol

import numpy as np

from banyan.text.control import ControlCalls
from banyan.text.entry import Actions
from banyan.text.inflight import Gathering, Inflight, ReqState
from banyan.text.journal import Journal
from banyan.text.request import (
    EmbeddingReqInput,
    GenerateReqInput,
    Limits,
    Request,
    RequestError,
    Single,
    check_length,
    complete,
    normalise,
)
from banyan.text.result import Output
from banyan.text.sessions import Sessions
from banyan.text.tokenizer import Tokenizer
from banyan.text.tracing import Tracing
from banyan.wire.base import make_uid
from banyan.wire.control import ControlReply, PeerLost, PeerRestarted, ProbeReply, ToFront, ToScheduler
from banyan.wire.output import BatchEmbeddingOut, BatchStrOut, FinishReason
from banyan.wire.request import TokenizedGenerateReqInput

THREAD_CHARS: Final = 20_000  # longer texts are tokenised in a thread, so that nobody waits for them
MAX_TICK_S: Final = 1.0

logger = logging.getLogger(__name__)


class RequestChannel(Protocol):
    """The way to the schedulers."""

    def send(self, message: ToScheduler) -> object:
        """Queue a message; never blocks."""


class TextChannel(Protocol):
    """The way back."""

    async def receive(self) -> list[ToFront]:
        """Wait for messages."""


class TokenizerManager:
    """The front's half of serving. Belongs to one event loop; `run` must be running for output to arrive."""

    def __init__(
        self,
        *,
        front: int,
        num_replicas: int,
        tokenizer: Tokenizer,
        limits: Limits,
        requests: RequestChannel,
        texts: TextChannel,
        tracer: Tracing,
        probe_interval_s: float,
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits: Final = limits
        self.journal: Final = Journal(front, num_replicas, probe_interval_s, limits.max_requests)
        self.inflight: Final = Inflight(limits.max_requests)
        self.sessions: Final = Sessions()
        self.control: Final = ControlCalls(front, lambda: self.journal.replicas, requests.send)
        self.model_update_lock: Final = asyncio.Lock()
        self.num_errors = 0  # messages that could not be handled
        self._front = front
        self._sequence = 0
        self._seed = seed
        self.tokenizer: Final = tokenizer
        self._requests = requests
        self._texts = texts
        self._tracer = tracer
        self._tick_s = min(MAX_TICK_S, probe_interval_s / 4)
        self._clock = clock

    # -- requests

    async def generate_request(
        self, asked: GenerateReqInput | EmbeddingReqInput
    ) -> AsyncGenerator[Output | list[Output], None]:
        """Serve a call. Without streaming one answer comes: an Output, or a list for several prompts or outputs. With
        it each Output holds all text so far, with its index if there are several.

        Raises RequestError before anything is sent; a request that fails later ends with a finish_reason that says
        so. Whoever stops listening ends the requests."""
        async with self.entered(asked) as gathering:
            states = gathering.states
            while not gathering.finished or gathering.has_news:
                ready = await gathering.news()
                if _streams(asked):
                    for state in ready:
                        yield state.output(indexed=len(states) > 1)
            if not _streams(asked):
                outputs = [state.output(indexed=len(states) > 1) for state in states]
                yield outputs if _is_batch(asked) or len(outputs) > 1 else outputs[0]

    @asynccontextmanager
    async def entered(self, asked: GenerateReqInput | EmbeddingReqInput) -> AsyncIterator[Gathering]:
        """Send the requests of a call, for who follows them himself; whatever is not done at the end is ended."""
        async with self.model_update_lock:  # held while weights change
            singles = normalise(asked, self.limits)
            gathering = self._admit(singles, stream=_streams(asked))
        try:
            await self._tokenize_and_send(singles, gathering.states)
            yield gathering
        finally:
            self._leave(gathering.states)

    def abort_request(self, rid: str = "", *, abort_all: bool = False) -> int:
        """End live requests of this name, or all; their callers get what there is. Returns how many."""
        states = list(self.inflight.rid_to_state.values()) if abort_all else self.inflight.named(rid)
        live = [state for state in states if not state.finished]
        for state in live:
            self._act(self.journal.abort(state.uid, self._clock()))
            self._end(state.uid, FinishReason(kind="abort", message="aborted on request", status=499))
        return len(live)

    @asynccontextmanager
    async def quiesced(self) -> AsyncIterator[None]:
        """Wait until no request is live and let no new one in; for what must not meet requests, as new weights."""
        async with self.model_update_lock:
            await self.inflight.wait_empty()
            yield

    async def open_session(self, name: str = "", capacity: int = 0) -> str:
        """Open a session for at most so many tokens (0: the context length). Returns its id."""
        name = name or uuid.uuid4().hex
        capacity = capacity or self.limits.context_length
        self.sessions.open(name, capacity)
        await self.control.open_session(name, capacity)
        return name

    async def close_session(self, name: str) -> None:
        """Close a session, here and on the replicas."""
        self.sessions.close(name)
        await self.control.close_session(name)

    def _admit(self, singles: list[Single], *, stream: bool) -> Gathering:
        """Number the requests of a call and make room for them, or refuse."""
        if self.journal.down:
            raise RequestError(503, "", self.journal.down)
        now = self._clock()
        states = []
        for index, single in enumerate(singles):
            uid = make_uid(self._front, self._sequence + index)
            rid = single.draft.rid or uuid.uuid4().hex
            states.append(ReqState(uid, rid, single.name, index, now))
        gathering = Gathering(states, stream=stream)
        self.inflight.add(gathering, now)
        self._sequence += len(states)
        self._trace("TokenizerManager.generate_request", states)
        return gathering

    async def _tokenize_and_send(self, singles: list[Single], states: list[ReqState]) -> None:
        prompts = await self._tokenize(singles)
        self._trace("TokenizerManager.tokenize", states)
        pairs = [
            (state, self._complete(single, prompts[single.prompt_index], state))
            for single, state in zip(singles, states, strict=True)
        ]
        self._trace("TokenizerManager.send", states)  # before the scheduler can say that it has them
        for state, request in pairs:  # all of them are valid, or none is sent
            if not state.finished:
                state.begin(request)
                self._act(self.journal.open(request, self._clock()))

    def _complete(self, single: Single, tokens: bytes, state: ReqState) -> Request:
        draft = single.draft
        if isinstance(draft, TokenizedGenerateReqInput) and draft.session is not None:
            tokens = self.sessions.prompt(draft.session, tokens)
            state.session = draft.session
        return complete(single, tokens, state.uid, state.rid, self._seed, self.limits)

    async def _tokenize(self, singles: list[Single]) -> dict[int, bytes]:
        """Turn each prompt into int32 tokens; copies share theirs."""
        texts = {single.prompt_index: single.prompt for single in singles if isinstance(single.prompt, str)}
        tokens = {single.prompt_index: single.prompt for single in singles if isinstance(single.prompt, bytes)}
        if texts:
            batch = list(texts.values())
            for text in batch:
                check_length("text", self.tokenizer.fewest_tokens(text), self.limits)
            if sum(map(len, batch)) > THREAD_CHARS:
                columns = await asyncio.to_thread(_encode, self.tokenizer, batch, self.limits)
            else:
                columns = _encode(self.tokenizer, batch, self.limits)
            tokens |= zip(texts, columns, strict=True)
        return tokens

    def _leave(self, states: list[ReqState]) -> None:
        """The call is over: end what is not done, and remember what sessions need."""
        now = self._clock()
        for state in states:
            if not state.finished:
                self._act(self.journal.abort(state.uid, now))
            elif state.session is not None and state.reason is not None and state.reason.kind in ("stop", "length"):
                self.sessions.keep(state.session, state.prompt + np.array(state.output_ids, np.int32).tobytes())
        self.inflight.remove(states, now)

    # -- output

    async def run(self) -> None:
        """Hear what comes and watch the time, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.handle_loop())
            tasks.create_task(self._tick_loop())

    async def handle_loop(self) -> None:
        """Hand on everything that the text channel brings."""
        while True:
            self.deliver(await self._texts.receive())

    async def _tick_loop(self) -> None:
        while True:
            await asyncio.sleep(self._tick_s)
            self.tick()

    def tick(self) -> None:
        """Look after requests that have been silent."""
        self._act(self.journal.tick(self._clock()))

    def deliver(self, messages: list[ToFront]) -> None:
        """Handle messages. One that cannot be handled is reported and left; the journal makes up for it."""
        for message in messages:
            try:
                self._hear(message)
            except Exception:
                self.num_errors += 1
                logger.exception("a %s could not be handled", type(message).__name__)

    def _hear(self, message: ToFront) -> None:
        now = self._clock()
        if isinstance(message, BatchStrOut):
            self._hear_texts(message, now)
            self._act(self.journal.actions())
        elif isinstance(message, BatchEmbeddingOut):
            for row in self.journal.accept_embeddings(message, now):
                found = self.inflight.find(row.uid)
                if found is not None:
                    found[0].feed_vector(row.vector, row.finished, now)
                    self._notify(*found)
            self._act(self.journal.actions())
        elif isinstance(message, ControlReply):
            self.control.hear(message)
        elif isinstance(message, ProbeReply):
            self._act(self.journal.probe_reply(message, now))
        elif isinstance(message, PeerRestarted):
            self._act(self.journal.restarted(message, now))
        elif isinstance(message, PeerLost):
            self._act(self.journal.lost(message, now))

    def _hear_texts(self, message: BatchStrOut, now: float) -> None:
        find, tracing = self.inflight.find, self._tracer.enabled
        for row in self.journal.accept(message, now):
            found = find(row.uid)
            if found is None:
                continue
            state, gathering = found
            state.feed(row, now)
            gathering.notify(state)
            if tracing and row.first:
                self._tracer.event("TokenizerManager.receive", row.uid, now)
            if tracing and row.finished is not None:
                self._tracer.event("TokenizerManager.finish", row.uid, now)

    def _notify(self, state: ReqState, gathering: Gathering) -> None:
        gathering.notify(state)
        if state.finished:
            self._trace("TokenizerManager.finish", [state])

    def _act(self, actions: Actions) -> None:
        for message in actions.messages:
            self._requests.send(message)
        for failure in actions.failures:
            self._end(failure.uid, failure.reason)

    def _end(self, uid: int, reason: FinishReason) -> None:
        found = self.inflight.find(uid)
        if found is not None:
            found[0].end(reason, self._clock())
            self._notify(*found)

    def _trace(self, name: str, states: list[ReqState]) -> None:
        if self._tracer.enabled:
            for state in states:
                self._tracer.event(name, state.uid, self._clock())


def _encode(tokenizer: Tokenizer, texts: list[str], limits: Limits) -> list[bytes]:
    columns = []
    for ids in tokenizer.encode_batch(texts):
        check_length("text", len(ids), limits)
        columns.append(np.array(ids, np.int32).tobytes())
    return columns


def _streams(asked: GenerateReqInput | EmbeddingReqInput) -> bool:
    return isinstance(asked, GenerateReqInput) and asked.stream


def _is_batch(asked: GenerateReqInput | EmbeddingReqInput) -> bool:
    """Tell whether a list was asked for, be it of one."""
    if asked.text is not None:
        return not isinstance(asked.text, str)
    return asked.input_ids is not None and not isinstance(asked.input_ids[0], int)
