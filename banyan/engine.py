"""Engine: the process tree and a front in this program, with generate, encode and score in blocking and async form."""

import atexit
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypedDict, Unpack, overload

from banyan.config.env import cache_dir, setting_variables
from banyan.config.errors import ConfigError
from banyan.config.host import probe
from banyan.config.load import from_options
from banyan.config.resolve import resolve
from banyan.config.spec import EngineConfig
from banyan.launch.background import LoopThread
from banyan.launch.front import Front
from banyan.launch.tree import Attachment, launch_engine
from banyan.sources.card import model_card
from banyan.sources.progress import ProgressBar
from banyan.sources.resolve import resolve_source
from banyan.text.manager import TokenizerManager
from banyan.text.request import EmbeddingReqInput, GenerateReqInput, Params, RequestError
from banyan.text.result import Output
from banyan.text.score import in_words_of_scores, label_scores, score_request
from banyan.wire.control import ControlReply, ServerInfo
from banyan.wire.request import SessionRef

Prompt = str | Sequence[str] | None
Ids = Sequence[int | Sequence[int]] | None
Sampling = Params | Sequence[Params] | None
Answer = Output | list[Output]


class GenerateOptions(TypedDict, total=False):
    """What may be asked of a generation beside its prompt and sampling; see GenerateReqInput."""

    rid: str | Sequence[str] | None
    return_logprob: bool | Sequence[bool]
    logprob_start_len: int | Sequence[int]
    top_logprobs_num: int | Sequence[int]
    token_ids_logprob: Ids
    return_hidden_states: bool
    lora_path: str | Sequence[str | None] | None
    priority: int | None
    session_params: SessionRef | Mapping[str, Any] | None
    cache_salt: str | None
    queue_timeout_s: float | None


class EncodeOptions(TypedDict, total=False):
    """What may be asked of an embedding or a score beside its prompt; see EmbeddingReqInput."""

    rid: str | Sequence[str] | None
    lora_path: str | Sequence[str | None] | None
    priority: int | None
    cache_salt: str | None
    queue_timeout_s: float | None


class EngineInfo(TypedDict):
    """The state of an engine at one moment."""

    replicas: list[ServerInfo]
    restarts: dict[str, int]  # by process
    pids: dict[str, int]
    settings: EngineConfig
    max_total_num_tokens: int
    max_req_input_len: int


class Engine:
    """A model that serves this program. Ends with `shutdown`, with its `with` block, or with the program.

    Settings are given as a config, or by the names of their flags: Engine("oracle", page_size=16, dp_size=2)."""

    def __init__(self, model_path: str | None = None, *, config: EngineConfig | None = None, **options: object) -> None:
        if model_path is not None:
            options["model_path"] = model_path
        if config is None:
            config = from_options(options, setting_variables())
        elif options:
            raise ConfigError(f"give either a config or single settings, not both: {', '.join(sorted(options))}")
        self._owner = os.getpid()
        card = model_card(resolve_source(config.model.path, cache_dir(), ProgressBar(sys.stderr)))
        settled = resolve(config, probe(), card)
        with contextlib.ExitStack() as stack:
            self._tree = launch_engine(settled)
            stack.callback(self._tree.shutdown)
            self.loop = LoopThread("front")  # where the front lives; for those who follow its requests themselves
            stack.callback(self.loop.stop)
            self.attachment = self._tree.attachment  # for further fronts
            front = self.loop.call(_open(self.attachment))
            stack.callback(lambda: self.loop.call(front.close()))
            self._cleanup = stack.pop_all()
        self.tokenizer_manager = front.manager
        atexit.register(self.shutdown)

    # -- text

    @overload
    def generate(
        self,
        prompt: Prompt = None,
        sampling_params: Sampling = None,
        input_ids: Ids = None,
        *,
        stream: Literal[False] = False,
        **options: Unpack[GenerateOptions],
    ) -> Answer: ...

    @overload
    def generate(
        self,
        prompt: Prompt = None,
        sampling_params: Sampling = None,
        input_ids: Ids = None,
        *,
        stream: Literal[True],
        **options: Unpack[GenerateOptions],
    ) -> Generator[Output, None, None]: ...

    def generate(
        self,
        prompt: Prompt = None,
        sampling_params: Sampling = None,
        input_ids: Ids = None,
        *,
        stream: bool = False,
        **options: Unpack[GenerateOptions],
    ) -> Answer | Generator[Output, None, None]:
        """Generate text. A list of prompts gives a list of answers in the same order, and so do several outputs.

        With `stream` chunks come as they are made, each with all text so far; to stop reading ends the request.
        A request that cannot be served raises RequestError; one that fails later says so in its finish_reason."""
        source = self._generate(prompt, sampling_params, input_ids, stream, options)
        return self.loop.iterate(_chunks(source)) if stream else self.loop.call(_only(source))

    @overload
    async def async_generate(
        self,
        prompt: Prompt = None,
        sampling_params: Sampling = None,
        input_ids: Ids = None,
        *,
        stream: Literal[False] = False,
        **options: Unpack[GenerateOptions],
    ) -> Answer: ...

    @overload
    async def async_generate(
        self,
        prompt: Prompt = None,
        sampling_params: Sampling = None,
        input_ids: Ids = None,
        *,
        stream: Literal[True],
        **options: Unpack[GenerateOptions],
    ) -> AsyncGenerator[Output, None]: ...

    async def async_generate(
        self,
        prompt: Prompt = None,
        sampling_params: Sampling = None,
        input_ids: Ids = None,
        *,
        stream: bool = False,
        **options: Unpack[GenerateOptions],
    ) -> Answer | AsyncGenerator[Output, None]:
        """Do as `generate` does, without blocking the caller's event loop; a stream is an async generator."""
        source = self._generate(prompt, sampling_params, input_ids, stream, options)
        return self.loop.stream(_chunks(source)) if stream else await self.loop.wait(_only(source))

    def _generate(
        self, prompt: Prompt, sampling_params: Sampling, input_ids: Ids, stream: bool, options: GenerateOptions
    ) -> AsyncGenerator[Answer, None]:
        asked = GenerateReqInput(
            text=prompt, input_ids=input_ids, sampling_params=sampling_params, stream=stream, **options
        )
        return self.tokenizer_manager.generate_request(asked)

    # -- vectors

    def encode(self, prompt: Prompt = None, input_ids: Ids = None, **options: Unpack[EncodeOptions]) -> Answer:
        """Turn text into vectors."""
        asked = EmbeddingReqInput(text=prompt, input_ids=input_ids, **options)
        return self.loop.call(_only(self.tokenizer_manager.generate_request(asked)))

    async def async_encode(
        self, prompt: Prompt = None, input_ids: Ids = None, **options: Unpack[EncodeOptions]
    ) -> Answer:
        """Do as `encode` does, without blocking the caller's event loop."""
        asked = EmbeddingReqInput(text=prompt, input_ids=input_ids, **options)
        return await self.loop.wait(_only(self.tokenizer_manager.generate_request(asked)))

    # -- scores

    def score(
        self,
        query: str | Sequence[int],
        items: str | Sequence[str] | Sequence[Sequence[int]],
        label_token_ids: Sequence[int] | None = None,
        apply_softmax: bool = False,
        item_first: bool = False,
        **options: Unpack[EncodeOptions],
    ) -> list[list[float]]:
        """Say for each item how likely each of the labels is to be the next token after query and item.

        With `apply_softmax` the labels' probabilities add up to one. All are texts, or all are token ids."""
        return self.loop.call(self._score(query, items, label_token_ids, apply_softmax, item_first, options))

    async def async_score(
        self,
        query: str | Sequence[int],
        items: str | Sequence[str] | Sequence[Sequence[int]],
        label_token_ids: Sequence[int] | None = None,
        apply_softmax: bool = False,
        item_first: bool = False,
        **options: Unpack[EncodeOptions],
    ) -> list[list[float]]:
        """Do as `score` does, without blocking the caller's event loop."""
        return await self.loop.wait(self._score(query, items, label_token_ids, apply_softmax, item_first, options))

    async def _score(
        self,
        query: str | Sequence[int],
        items: str | Sequence[str] | Sequence[Sequence[int]],
        label_token_ids: Sequence[int] | None,
        apply_softmax: bool,
        item_first: bool,
        options: EncodeOptions,
    ) -> list[list[float]]:
        asked = score_request(query, items, label_token_ids, item_first=item_first, **options)
        try:
            answer = await _only(self.tokenizer_manager.generate_request(asked))
        except RequestError as error:
            raise in_words_of_scores(error) from None
        outputs = answer if isinstance(answer, list) else [answer]
        return [label_scores(output, apply_softmax=apply_softmax) for output in outputs]

    # -- control

    def abort(self, rid: str = "", *, abort_all: bool = False) -> int:
        """End the live requests of a name, or all; their callers get what there is. Returns how many."""
        return self.loop.call(_abort(self.tokenizer_manager, rid, abort_all))

    def flush_cache(self) -> list[ControlReply]:
        """Forget every cached prefix that no request holds."""
        return self.loop.call(self.tokenizer_manager.control.flush_cache())

    def open_session(self, name: str = "", capacity: int = 0) -> str:
        """Open a session, whose requests continue each other; returns its id for `session_params`."""
        return self.loop.call(self.tokenizer_manager.open_session(name, capacity))

    def close_session(self, name: str) -> None:
        """Close a session."""
        self.loop.call(self.tokenizer_manager.close_session(name))

    @property
    def restarts(self) -> dict[str, int]:
        """How often each process was restarted."""
        return self._tree.supervisor.restarts

    @property
    def deaths(self) -> list[tuple[str, str]]:
        """Which processes died, and of what, the latest last."""
        return self._tree.supervisor.deaths

    @property
    def pids(self) -> dict[str, int]:
        """The process id of each process that runs."""
        return self._tree.supervisor.pids

    def get_server_info(self) -> EngineInfo:
        """Report the state of every replica, the restarts so far, and the settings in use."""
        replies = self.loop.call(self.tokenizer_manager.control.get_server_info())
        attachment = self.attachment
        return {
            "replicas": [reply.info for reply in replies if reply.info is not None],
            "restarts": self.restarts,
            "pids": self.pids,
            "settings": attachment.settled.config,
            "max_total_num_tokens": attachment.max_total_num_tokens,
            "max_req_input_len": attachment.max_req_input_len,
        }

    # -- the end

    def shutdown(self) -> None:
        """End all processes of this engine and remove their files; harmless when done twice, or in a fork."""
        if os.getpid() == self._owner:
            self._cleanup.close()
            atexit.unregister(self.shutdown)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()


async def _open(attachment: Attachment) -> Front:
    return Front(attachment, index=0)


async def _abort(manager: TokenizerManager, rid: str, abort_all: bool) -> int:
    return manager.abort_request(rid, abort_all=abort_all)


async def _only(source: AsyncGenerator[Answer, None]) -> Answer:
    """Take the one answer of a call that does not stream."""
    try:
        return await anext(source)
    finally:
        await source.aclose()


async def _chunks(source: AsyncGenerator[Answer, None]) -> AsyncGenerator[Output, None]:
    """Take the chunks of a stream one by one."""
    try:
        async for answer in source:
            for output in answer if isinstance(answer, list) else [answer]:
                yield output
    finally:
        await source.aclose()
