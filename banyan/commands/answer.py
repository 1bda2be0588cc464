"""Responder: has an engine answer a conversation, and writes the answer as it grows, each character once."""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol, TextIO

from banyan.text.result import EndInfo, Output
from banyan.text.template import ChatTemplate


class Generates(Protocol):
    """Streams an answer to a prompt or to its tokens, as `Engine.generate(stream=True)` does."""

    def __call__(
        self, *, prompt: str | None, input_ids: Sequence[int] | None, sampling_params: Mapping[str, Any]
    ) -> Generator[Output, None, None]:
        """Yield chunks, each with all text so far."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How fast an answer came."""

    first_s: float  # until the first text
    rest_s: float  # from then to the end
    num_tokens: int
    num_prompt: int
    num_cached: int | None  # only a whole answer brings it

    def __str__(self) -> str:
        cached = f" ({self.num_cached} cached)" if self.num_cached is not None else ""
        rate = f"{(self.num_tokens - 1) / self.rest_s:.1f} tok/s  " if self.num_tokens > 1 and self.rest_s > 0 else ""
        return f"{rate}TTFT {self.first_s:.2f} s  {self.num_tokens} tokens  prompt {self.num_prompt}{cached}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a question."""

    text: str
    problem: str  # why it is cut off; empty if it is whole
    was_stopped: bool  # by Ctrl-C
    timing: Timing | None  # None: nothing came


class Responder:
    """Answers. Without a template a model completes text, and knows of the last message only."""

    def __init__(
        self,
        generate: Generates,
        template: ChatTemplate | None,
        out: TextIO,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._generate = generate
        self._template = template
        self._out = out
        self._clock = clock

    def respond(self, messages: Sequence[Mapping[str, str]], sampling: Mapping[str, Any]) -> Answer:
        """Write the answer to a conversation. Ctrl-C ends it early; a refused conversation raises RequestError."""
        if self._template is None:
            stream = self._generate(prompt=messages[-1]["content"], input_ids=None, sampling_params=sampling)
        else:
            ids = self._template.encode(self._template.render(messages))
            stream = self._generate(prompt=None, input_ids=ids, sampling_params=sampling)
        return self._written(stream)

    def _written(self, stream: Generator[Output, None, None]) -> Answer:
        start = self._clock()
        first = last = start
        latest: Output | None = None
        text = ""
        was_stopped = False
        try:
            # Closed here and now: that is what ends the request when a person has heard enough.
            with closing(stream):
                for chunk in stream:
                    last = self._clock()
                    if latest is None:
                        first = last
                    latest = chunk
                    self._out.write(chunk["text"][len(text) :])
                    self._out.flush()
                    text = chunk["text"]
        except KeyboardInterrupt:
            was_stopped = True
        if was_stopped or (text and not text.endswith("\n")):  # a terminal shows the Ctrl-C behind the text
            self._out.write("\n")
            self._out.flush()
        if latest is None:
            return Answer(text, "" if was_stopped else "no end came", was_stopped, None)
        meta = latest["meta_info"]
        end = meta.get("finish_reason")
        timing = Timing(
            first_s=first - start,
            rest_s=last - first,
            num_tokens=meta.get("completion_tokens", 0),
            num_prompt=meta.get("prompt_tokens", 0),
            num_cached=meta.get("cached_tokens", 0) if end is not None else None,
        )
        return Answer(text, "" if was_stopped else _problem(end), was_stopped, timing)


def _problem(end: EndInfo | None) -> str:
    if end is None:
        return "no end came"
    return end["message"] if end["type"] in ("abort", "error") else ""
