"""A page of the documentation taken apart: fenced blocks, code in the text, links, headings, commands."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_FENCE = re.compile(
    r"^(?P<mark>```+|~~~+)[ \t]*(?P<language>[\w+-]*)[^\n]*\n(?P<text>.*?)^(?P=mark)[ \t]*$", re.M | re.S
)
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
_LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
_REFERENCE = re.compile(r"^\[[^\]]+\]:\s*(\S+)", re.M)
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*$", re.M)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*")
_SHELLS = ("sh", "bash", "shell", "console")


class Piece(NamedTuple):
    """Some text of a page and the line on which it starts."""

    line: int
    text: str


class Command(NamedTuple):
    """One simple command of a shell block: variables set for it, then its words."""

    line: int
    variables: tuple[str, ...]
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """One Markdown file; its path is relative to the root of the repository."""

    path: Path
    text: str

    def at(self, line: int, what: str) -> str:
        """Say where something was found."""
        return f"{self.path}:{line}: {what}"

    @property
    def prose(self) -> str:
        """The page with its fenced blocks blanked, line for line."""
        return _FENCE.sub(lambda match: "\n" * match.group().count("\n"), self.text)

    def fences(self, *languages: str) -> list[Piece]:
        """The fenced blocks in these languages."""
        return [
            Piece(self._line(self.text, match.start("text")), match["text"])
            for match in _FENCE.finditer(self.text)
            if match["language"].lower() in languages
        ]

    def spans(self) -> list[Piece]:
        """The code in the text."""
        prose = self.prose
        return [Piece(self._line(prose, m.start()), " ".join(m[2].split())) for m in _SPAN.finditer(prose)]

    def links(self) -> list[Piece]:
        """The targets of all links; what looks like one inside code is none."""
        prose = _SPAN.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), self.prose)
        found = [*_LINK.finditer(prose), *_REFERENCE.finditer(prose)]
        return [Piece(self._line(prose, match.start()), match[1]) for match in found]

    def anchors(self) -> set[str]:
        """The names under which the headings can be linked to."""
        found: set[str] = set()
        for match in _HEADING.finditer(self.prose):
            words = re.sub(r"[^\w\- ]", "", match[1].lower()).replace(" ", "-")
            found.add(words if words not in found else f"{words}-1")
        return found

    def commands(self) -> Iterator[Command]:
        """The simple commands of all shell blocks."""
        for block in self.fences(*_SHELLS):
            line = block.line
            for text in re.sub(r"\\\n", lambda _: "\x00", block.text).split("\n"):
                yield from _commands(line, text.replace("\x00", " "))
                line += 1 + text.count("\x00")

    @staticmethod
    def _line(text: str, offset: int) -> int:
        return text.count("\n", 0, offset) + 1


def read_pages(root: Path, *patterns: str) -> list[Page]:
    """Read the pages that match these patterns."""
    paths = sorted({path for pattern in patterns for path in root.glob(pattern)})
    return [Page(path.relative_to(root), path.read_text(encoding="utf-8")) for path in paths]


def _commands(line: int, text: str) -> Iterator[Command]:
    """Split a line at pipes, redirections and separators."""
    lexer = shlex.shlex(text.strip().removeprefix("$ "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if set(word) <= set("();<>|&"):
            if words:
                variables = [w for i, w in enumerate(words) if all(_ASSIGNMENT.fullmatch(v) for v in words[: i + 1])]
                yield Command(line, tuple(variables), tuple(words[len(variables) :]))
            words = []
        else:
            words.append(word)
