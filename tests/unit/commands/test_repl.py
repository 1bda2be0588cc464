"""Tests of banyan.commands.repl."""

import io

import pytest

from banyan.commands.answer import Responder
from banyan.commands.chat import CHAT_LEAVES, Chat
from banyan.commands.repl import MORE_PROMPT, PROMPT, Repl
from banyan.text.request import RequestError
from tests.unit.commands.test_answer import FakeStream, chunk

STOP = chunk("yes", 1, {"type": "stop"})


class Typist:
    """Types lines, or presses keys; then the input ends."""

    def __init__(self, *lines: str | BaseException) -> None:
        self._lines = list(lines)
        self.prompts: list[str] = []

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        line = self._lines.pop(0) if self._lines else EOFError()
        if isinstance(line, BaseException):
            raise line
        return line


def talk(typist: Typist, stream: FakeStream) -> tuple[Chat, str]:
    out = io.StringIO()
    chat = Chat("tiny", {leaf.name: leaf.default for leaf in CHAT_LEAVES})
    Repl(chat, Responder(stream, None, out, clock=lambda: 0.0), typist, out, lambda text: f"({text})").run()
    return chat, out.getvalue()


def test_a_question_is_answered_with_its_figures_below() -> None:
    chat, written = talk(Typist("hello", "/bye", "not read"), FakeStream(STOP))
    assert written == "yes\n(TTFT 0.00 s  1 tokens  prompt 9 (4 cached))\n"
    assert [message["content"] for message in chat.messages] == ["hello", "yes"]


def test_the_prompt_shows_that_a_message_goes_on() -> None:
    typist = Typist('"""a', 'b"""')
    talk(typist, FakeStream(STOP))
    assert typist.prompts == [PROMPT, MORE_PROMPT, PROMPT]


def test_ctrl_c_stops_the_answer_and_not_the_chat() -> None:
    typist = Typist("hello", "/show")
    chat, written = talk(typist, FakeStream(chunk("ye", 1), KeyboardInterrupt()))
    assert "(stopped  TTFT" in written
    assert len(typist.prompts) == 3
    assert chat.messages[-1] == {"role": "assistant", "content": "ye"}


def test_a_question_without_an_answer_is_forgotten() -> None:
    chat, written = talk(Typist("hello"), FakeStream(KeyboardInterrupt()))
    assert chat.messages == []
    assert written == "\n(stopped)\n\n"


def test_ctrl_c_at_the_prompt_drops_the_lines_and_says_how_to_leave() -> None:
    typist = Typist('"""a', KeyboardInterrupt(), "/bye")
    chat, written = talk(typist, FakeStream())
    assert typist.prompts == [PROMPT, MORE_PROMPT, PROMPT]
    assert "/bye or Ctrl-D leaves" in written
    assert chat.messages == []


@pytest.mark.parametrize("error", [RequestError(400, "messages", "too long")])
def test_a_refused_question_is_told_and_forgotten(error: RequestError) -> None:
    chat, written = talk(Typist("hello", "/bye"), FakeStream(error))
    assert "messages: too long; /clear" in written
    assert chat.messages == []


def test_an_answer_that_is_cut_off_says_so() -> None:
    _, written = talk(Typist("hello", "/bye"), FakeStream(chunk("ye", 1, {"type": "error", "message": "no more"})))
    assert "(cut off: no more  TTFT" in written


def test_a_line_that_is_no_text_does_not_end_the_chat() -> None:
    typist = Typist(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "/bye")
    _, written = talk(typist, FakeStream())
    assert "not UTF-8" in written
    assert len(typist.prompts) == 2
