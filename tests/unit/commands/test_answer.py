"""Tests of banyan.commands.answer."""

import io
import itertools
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import pytest

from banyan.commands.answer import Answer, Generates, Responder, Timing
from banyan.text.request import RequestError
from banyan.text.result import EndInfo, MetaInfo, Output
from banyan.text.template import ChatTemplate
from banyan.text.tokenizer import byte_tokenizer

QUESTION = [
    {"role": "user", "content": "first"},
    {"role": "assistant", "content": "x"},
    {"role": "user", "content": "?"},
]


def chunk(text: str, count: int, end: EndInfo | None = None) -> Output:
    meta: MetaInfo = {"finish_reason": end, "prompt_tokens": 9, "completion_tokens": count, "cached_tokens": 4}
    return {"text": text, "meta_info": meta}


class FakeStream:
    """Gives chunks, or raises; knows what it was asked and whether it was closed."""

    def __init__(self, *parts: Output | BaseException) -> None:
        self._parts = parts
        self.asked: tuple[str | None, Sequence[int] | None, Mapping[str, Any]] | None = None
        self.is_closed = False

    def __call__(
        self, *, prompt: str | None, input_ids: Sequence[int] | None, sampling_params: Mapping[str, Any]
    ) -> Generator[Output, None, None]:
        self.asked = (prompt, input_ids, sampling_params)
        try:
            for part in self._parts:
                if isinstance(part, BaseException):
                    raise part
                yield part
        finally:
            self.is_closed = True


def respond(stream: Generates, template: ChatTemplate | None = None) -> tuple[Answer, str]:
    out = io.StringIO()
    ticks = itertools.count()
    answer = Responder(stream, template, out, clock=lambda: float(next(ticks))).respond(QUESTION, {"top_k": 1})
    return answer, out.getvalue()


def test_each_character_is_written_once_and_the_answer_is_timed() -> None:
    stream = FakeStream(chunk("to", 1), chunk("to be", 2), chunk("to be", 3, {"type": "stop", "matched": 2}))
    answer, written = respond(stream)
    assert written == "to be\n"
    timing = Timing(first_s=1, rest_s=2, num_tokens=3, num_prompt=9, num_cached=4)
    assert answer == Answer("to be", "", False, timing)
    assert str(timing) == "1.0 tok/s  TTFT 1.00 s  3 tokens  prompt 9 (4 cached)"


def test_without_a_template_the_last_message_is_the_prompt() -> None:
    stream = FakeStream(chunk("a\n", 1, {"type": "length", "length": 1}))
    answer, written = respond(stream)
    assert stream.asked == ("?", None, {"top_k": 1})
    assert written == "a\n"
    assert str(answer.timing) == "TTFT 1.00 s  1 tokens  prompt 9 (4 cached)"  # one token has no rate


def test_with_a_template_the_conversation_is_the_prompt() -> None:
    stream = FakeStream(chunk("a", 1, {"type": "stop"}))
    source = "{% for m in messages %}{{ m.content }}|{% endfor %}{% if add_generation_prompt %}:{% endif %}"
    respond(stream, ChatTemplate(source, byte_tokenizer()))
    assert stream.asked == (None, list(b"first|x|?|:"), {"top_k": 1})


def test_ctrl_c_ends_the_request_and_keeps_what_came() -> None:
    stream = FakeStream(chunk("to be", 2), KeyboardInterrupt())
    answer, written = respond(stream)
    assert stream.is_closed
    assert (answer.text, answer.problem, answer.was_stopped, written) == ("to be", "", True, "to be\n")
    assert str(answer.timing).endswith("prompt 9")  # cached tokens are known at the end only


def test_ctrl_c_before_anything_came() -> None:
    answer, written = respond(FakeStream(KeyboardInterrupt()))
    assert answer == Answer("", "", True, None)
    assert written == "\n"


def test_ctrl_c_while_text_is_written_closes_the_stream() -> None:
    class Interrupted(io.StringIO):
        def flush(self) -> None:
            if self.getvalue() == "to":
                raise KeyboardInterrupt

    stream = FakeStream(chunk("to", 1), chunk("to be", 2))
    answer = Responder(stream, None, Interrupted()).respond(QUESTION, {})
    assert answer.was_stopped
    assert stream.is_closed


@pytest.mark.parametrize(
    ("end", "problem"), [({"type": "error", "message": "no more"}, "no more"), (None, "no end came")]
)
def test_an_answer_that_is_cut_off_says_why(end: EndInfo | None, problem: str) -> None:
    assert respond(FakeStream(chunk("to", 1, end)))[0].problem == problem


def test_silence_is_a_problem() -> None:
    assert respond(FakeStream())[0] == Answer("", "no end came", False, None)


def test_a_refusal_is_passed_on() -> None:
    with pytest.raises(RequestError, match="too long"):
        respond(FakeStream(RequestError(400, "text", "too long")))
