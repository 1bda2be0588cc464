"""Backend: a scheduler of a few lines and a real detokenizer behind a TokenizerManager, on one event loop."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import numpy as np

from banyan.text.manager import TokenizerManager
from banyan.text.request import EmbeddingReqInput, GenerateReqInput, Limits
from banyan.text.result import Output
from banyan.text.tokenizer import byte_tokenizer
from banyan.text.tracing import Tracing
from banyan.wire.base import i32, i64
from banyan.wire.control import ControlReply, ControlReq, PeerRestarted, ProbeReply, ToFront, ToScheduler
from banyan.wire.output import BatchEmbeddingOut, Finished, FinishReason, HiddenStates, Logprobs, Opened
from banyan.wire.request import AbortReq, ProbeReq, TokenizedEmbeddingReqInput, TokenizedGenerateReqInput
from tests.unit.text.wiring import QUIET, Out, batch, detokenizer, floats, ints, longs

T = TypeVar("T")
GREEDY = {"temperature": 0.0, "max_new_tokens": 100}
LIMITS = Limits(vocab_size=259, context_length=200, max_req_input_len=100, max_requests=16, is_embedding=True)


class Backend:
    """Echoes prompts, one token a step, by default as fast as the event loop turns. Sampled outputs start with a
    letter that depends on the seed."""

    def __init__(self, *, paused: bool = False, num_replicas: int = 1) -> None:
        self.sent: list[ToScheduler] = []
        self.running: dict[int, tuple[TokenizedGenerateReqInput, int, bool]] = {}
        self.paused = paused
        self.answers_control = True
        self.on_step: Callable[[], None] = lambda: None
        self._num_replicas = num_replicas
        self._detokenizer = detokenizer()
        self._texts: asyncio.Queue[list[ToFront]] = asyncio.Queue()
        self._scheduled = False
        self._incarnation = 0

    # -- the channels

    def send(self, message: ToScheduler) -> bool:
        self.sent.append(message)
        if isinstance(message, TokenizedGenerateReqInput):
            self.running[message.uid] = (message, len(message.committed) // 4, False)
            self.schedule()
        elif isinstance(message, TokenizedEmbeddingReqInput):
            self._embed(message)
        elif isinstance(message, AbortReq):
            for uid, below in zip(i64(message.uids).tolist(), i32(message.below).tolist(), strict=True):
                if uid in self.running and self.running[uid][0].epoch < below:
                    del self.running[uid]
        elif isinstance(message, ControlReq) and self.answers_control:
            for replica in range(self._num_replicas):
                self.say(ControlReply(front=message.front, call=message.call, replica=replica))
        elif isinstance(message, ProbeReq):
            known = [self.running.get(uid) for uid in i64(message.uids).tolist()]
            self.say(
                ProbeReply(
                    front=0,
                    replica=0,
                    uids=message.uids,
                    epochs=ints(*(one[0].epoch if one else -1 for one in known)),
                    next=ints(*(one[1] if one else 0 for one in known)),
                )
            )
        return True

    async def receive(self) -> list[ToFront]:
        return await self._texts.get()

    def say(self, *messages: ToFront) -> None:
        self._texts.put_nowait(list(messages))

    # -- the work

    def schedule(self) -> None:
        if not self._scheduled and not self.paused:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._step_again)

    def _step_again(self) -> None:
        self._scheduled = False
        if not self.paused:
            self.step()
            if self.running:
                self.schedule()

    def step(self) -> None:
        """Every running request says one token."""
        self.on_step()
        rows: list[Out] = []
        opened: list[Opened] = []
        for uid, (ask, at, known) in list(self.running.items()):
            output = expected(ask)
            if not known:
                sampling = ask.sampling
                opened.append(
                    Opened(
                        uid=uid,
                        epoch=ask.epoch,
                        rid=ask.rid,
                        context=b"",
                        committed=ask.committed,
                        stop=sampling.stop,
                        prompt_tokens=len(ask.tokens) // 4,
                    )
                )
            row = Out(uid, at, output[at : at + 1], epoch=ask.epoch)
            if ask.logprobs is not None:
                row.logprobs = Logprobs(row=len(rows), values=floats(-float(at)))
            if ask.return_hidden_states:
                row.hidden_states = HiddenStates(
                    row=len(rows), dim=2, values=floats(float(at), 0.5)[: 8 * len(row.tokens)]
                )
            self.running[uid] = (ask, at + 1, True)
            if at + 1 >= len(output):
                row.finished = Finished(
                    row=0,
                    reason=FinishReason(kind="length"),
                    prompt_tokens=len(ask.tokens) // 4,
                    cached_tokens=2,
                    completion_tokens=len(output),
                )
                del self.running[uid]
            rows.append(row)
        if rows:
            self.say(*(message for _, message in self._detokenizer.process(batch(*rows, opened=tuple(opened)))))

    def _embed(self, ask: TokenizedEmbeddingReqInput) -> None:
        end = Finished(
            row=0,
            reason=FinishReason(kind="length"),
            prompt_tokens=len(ask.tokens) // 4,
            cached_tokens=0,
            completion_tokens=0,
        )
        vector = np.array(i32(ask.tokens)[:2], np.float32).tobytes()
        self.say(
            BatchEmbeddingOut(
                replica=0, uids=longs(ask.uid), epochs=ints(ask.epoch), dim=2, vectors=vector, finished=(end,)
            )
        )

    def crash(self, suspects: tuple[int, ...] = (), *, deliberate: bool = True) -> None:
        """The scheduler dies, with all it knows, and comes back."""
        self._incarnation += 1
        self.running.clear()
        self.say(
            PeerRestarted(
                kind="scheduler",
                index=0,
                incarnation=self._incarnation,
                deliberate=deliberate,
                suspects=longs(*suspects),
            )
        )

    def crash_detokenizer(self) -> None:
        """The detokenizer dies and comes back."""
        self._incarnation += 1
        self._detokenizer = detokenizer()
        self.say(PeerRestarted(kind="detokenizer", index=0, incarnation=self._incarnation))


def expected(ask: TokenizedGenerateReqInput) -> list[int]:
    """What the model says to a request."""
    prompt: list[int] = i32(ask.tokens).tolist()
    first = [97 + ask.seed % 26] if ask.sampling.temperature > 0 else []
    return (first + prompt)[: ask.sampling.max_new_tokens]


def manager(
    backend: Backend, limits: Limits = LIMITS, tracer: Tracing = QUIET, clock: Callable[[], float] = lambda: 0.0
) -> TokenizerManager:
    """A manager in front of a backend."""
    return TokenizerManager(
        front=0,
        num_replicas=backend._num_replicas,
        tokenizer=byte_tokenizer(),
        limits=limits,
        requests=backend,
        texts=backend,
        tracer=tracer,
        probe_interval_s=5.0,
        clock=clock,
    )


@asynccontextmanager
async def serving(backend: Backend, made: TokenizerManager) -> AsyncIterator[TokenizerManager]:
    task = asyncio.create_task(made.handle_loop())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert made.num_errors == 0


def run(test: Callable[[Backend, TokenizerManager], Awaitable[T]], **options: Any) -> T:
    """Run a test against a served manager, and check that nothing is left behind."""

    async def main() -> T:
        backend = Backend(paused=options.pop("paused", False))
        async with serving(backend, manager(backend, **options)) as made:
            result = await asyncio.wait_for(test(backend, made), 10)
            assert (len(made.inflight), len(made.journal)) == (0, 0)
            assert not made.inflight.rid_to_state
            return result

    return asyncio.run(main())


async def collect(made: TokenizerManager, asked: GenerateReqInput | EmbeddingReqInput) -> list[Any]:
    return [output async for output in made.generate_request(asked)]


async def answer(made: TokenizerManager, text: str, **fields: Any) -> Output:
    return await only(made, GenerateReqInput(text=text, sampling_params=GREEDY, **fields))


async def only(made: TokenizerManager, asked: GenerateReqInput) -> Output:
    """The one answer of a call with one output."""
    (output,) = [output async for output in made.generate_request(asked)]
    assert not isinstance(output, list)
    return output


async def settle() -> None:
    """Let everybody who can run do so."""
    for _ in range(20):
        await asyncio.sleep(0)
