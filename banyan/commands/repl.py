"""Repl: the terminal side of a chat. Reads lines, has questions answered, and stays until it is told to leave."""

from collections.abc import Callable
from typing import Final, TextIO

from banyan.commands.answer import Answer, Responder
from banyan.commands.chat import Ask, Chat, Leave, More, Say
from banyan.text.request import RequestError

PROMPT: Final = ">>> "
MORE_PROMPT: Final = "... "


class Repl:
    """Lines in, answers out. `read` shows a prompt and returns a line; it raises EOFError at the end."""

    def __init__(
        self, chat: Chat, responder: Responder, read: Callable[[str], str], out: TextIO, dim: Callable[[str], str]
    ) -> None:
        self._chat = chat
        self._responder = responder
        self._read = read
        self._out = out
        self._dim = dim

    def run(self) -> None:
        """Talk until the person leaves."""
        prompt = PROMPT
        while True:
            try:
                line = self._read(prompt)
            except EOFError:
                self._say("")
                return
            except KeyboardInterrupt:
                self._chat.drop_line()
                self._say("\n/bye or Ctrl-D leaves")
                prompt = PROMPT
                continue
            except UnicodeDecodeError:
                self._say("this line is not UTF-8, so it cannot be read")
                continue
            action = self._chat.feed(line)
            prompt = MORE_PROMPT if isinstance(action, More) else PROMPT
            if isinstance(action, Leave):
                return
            if isinstance(action, Ask):
                self._answer()
            elif isinstance(action, Say) and action.text:
                self._say(action.text)

    def _answer(self) -> None:
        try:
            answer = self._responder.respond(self._chat.messages, self._chat.sampling())
        except RequestError as error:
            self._chat.unanswered()
            self._say(f"{error}; /clear forgets the conversation, /show shows the parameters")
            return
        if answer.text:
            self._chat.answered(answer.text)
        else:
            self._chat.unanswered()
        self._say(self._dim(footer(answer)))

    def _say(self, text: str) -> None:
        self._out.write(f"{text}\n")
        self._out.flush()


def footer(answer: Answer) -> str:
    """Say in one line how an answer went."""
    went = "stopped" if answer.was_stopped else f"cut off: {answer.problem}" if answer.problem else ""
    return "  ".join(part for part in (went, str(answer.timing or "")) if part)
