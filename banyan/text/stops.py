"""StopMatcher: stop strings and stop patterns across chunk borders; trim_eos. Pure, linear, character by character.

What may turn out to be the beginning of a stop string is held back, so no part of one is ever streamed. The state is
a function of the text alone, not of how it was cut.
"""

from typing import Final, NamedTuple, overload

from banyan.text.regex import Matcher, compile_regex
from banyan.wire.output import FinishReason

MAX_MATCH: Final = 1024  # of a longer match of a pattern only so many characters are held back and trimmed


class Match(NamedTuple):
    """A stop was found: it ends before `end`, counted in the text of that feed, and has `length` characters."""

    end: int
    length: int


class StopMatcher:
    """Reads a request's text as it grows. At the first place where some stop is complete, the longest one wins."""

    def __init__(self, stop: tuple[str, ...], stop_regex: tuple[str, ...]) -> None:
        self._stops = [_StopString(text) for text in stop]
        self._patterns = [Matcher(compile_regex(source), MAX_MATCH) for source in stop_regex]
        self._first_chars: Final = frozenset(text[0] for text in stop)
        self._idle = True  # no stop string has begun

    @property
    def num_held(self) -> int:
        """Characters at the end of the text that may be the beginning of a stop."""
        held = max((stop.state for stop in self._stops), default=0)
        return max(held, max((pattern.num_held for pattern in self._patterns), default=0))

    def feed(self, text: str, *, armed: bool = True) -> Match | None:
        """Read more text; stop at the first match. Not armed: read on, and let matches pass."""
        if self._idle and not self._patterns and self._first_chars.isdisjoint(text):
            return None  # nearly always: nothing in this text begins a stop string
        for i, char in enumerate(text):
            length = 0
            for stop in self._stops:
                length = max(length, stop.feed(char))
            for pattern in self._patterns:
                length = max(length, pattern.feed(char))
            if length and armed:
                return Match(i + 1, length)
        self._idle = not any(stop.state for stop in self._stops)
        return None


class _StopString:
    """One string, by Knuth, Morris and Pratt: `state` characters of it are the end of the text."""

    def __init__(self, text: str) -> None:
        self.state = 0
        self._text = text
        self._borders = _borders(text)

    def feed(self, char: str) -> int:
        """Read a character. Returns the length of the string if it is complete with it, else 0."""
        text, borders, state = self._text, self._borders, self.state
        while state and text[state] != char:
            state = borders[state - 1]
        if text[state] == char:
            state += 1
        if state == len(text):
            self.state = borders[state - 1]
            return len(text)
        self.state = state
        return 0


def _borders(text: str) -> list[int]:
    """For each prefix, how long its longest proper prefix is that is also its end."""
    borders = [0] * len(text)
    length = 0
    for i in range(1, len(text)):
        while length and text[i] != text[length]:
            length = borders[length - 1]
        if text[i] == text[length]:
            length += 1
        borders[i] = length
    return borders


@overload
def trim_eos(output: str, finished_reason: FinishReason | None, no_stop_trim: bool) -> str: ...
@overload
def trim_eos(output: list[int], finished_reason: FinishReason | None, no_stop_trim: bool) -> list[int]: ...
def trim_eos(output: str | list[int], finished_reason: FinishReason | None, no_stop_trim: bool) -> str | list[int]:
    """Cut off what ended the output: the stop string at the end of a text, the stop token at the end of ids."""
    if no_stop_trim or finished_reason is None or finished_reason.kind != "stop":
        return output
    matched = finished_reason.matched
    if isinstance(output, str):
        # The last one: earlier ones were let pass, for min_new_tokens asked for more.
        place = output.rfind(matched) if isinstance(matched, str) else -1
        return output[:place] if place >= 0 else output
    return output[:-1] if output and output[-1] == matched else output
