"""Regular expressions matched in linear time, character by character: no backtracking, so no pattern can hang.

A pattern becomes a small program whose threads all run at once (Thompson, Pike). Supported: literals, `.`, classes,
escapes, groups, `|`, `*`, `+`, `?`, `{m,n}`. Anchors, look-around and back-references are refused.
"""

from dataclasses import dataclass, field
from typing import Final

MAX_STATES: Final = 320  # of one pattern: what a character costs is bounded by it
MAX_DEPTH: Final = 32
_CONTROL: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "0": "\0"}
_HEX: Final = {"x": 2, "u": 4, "U": 8}


class RegexError(ValueError):
    """A pattern that cannot be used, with the reason."""


@dataclass(frozen=True, slots=True)
class Chars:
    """A set of characters: single ones, ranges, and the categories d, w, s and their opposites D, W, S."""

    singles: frozenset[str] = frozenset()
    ranges: tuple[tuple[str, str], ...] = ()
    categories: str = ""
    negated: bool = False

    def __contains__(self, char: str) -> bool:
        found = (
            char in self.singles
            or any(low <= char <= high for low, high in self.ranges)
            or any(_in_category(char, category) for category in self.categories)
        )
        return found is not self.negated


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts that follow each other."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Alternatives."""

    options: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part, `least` to `most` times; no upper bound if `most` is None."""

    part: "Node"
    least: int
    most: int | None


Node = Chars | Sequence | Choice | Repeat


@dataclass(slots=True)
class Program:
    """States: `chars[i]` is what state i reads, None if it reads nothing; `next[i]` is where it leads.

    A state that reads nothing and leads nowhere is a match."""

    chars: list[Chars | None] = field(default_factory=list)
    next: list[tuple[int, ...]] = field(default_factory=list)

    def add(self, chars: Chars | None) -> int:
        """Append a state."""
        if len(self.chars) >= MAX_STATES:
            raise RegexError(f"needs more than {MAX_STATES} states; write fewer or smaller repetitions")
        self.chars.append(chars)
        self.next.append(())
        return len(self.chars) - 1


def compile_regex(source: str) -> Program:
    """Turn a pattern into a program whose first state is 0, or raise RegexError."""
    node = _Parser(source).parse()
    program = Program()
    _emit(program, node, program.add(None))
    if _Front().enter(program, 0, 0):
        raise RegexError("matches the empty text, so it would end every output at once")
    return program


class _Front:
    """The threads at one place in the text: state -> where its match began.

    A state appears once, with the earliest beginning; entries are in the order of their beginnings, for threads are
    advanced in order and the youngest comes last."""

    def __init__(self) -> None:
        self.threads: dict[int, int] = {}
        self._seen: set[int] = set()

    def enter(self, program: Program, state: int, start: int) -> bool:
        """Start a thread at a state and at those reached from it without reading. True: a match is among them."""
        stack, matched = [state], False
        while stack:
            current = stack.pop()
            if current in self._seen:
                continue
            self._seen.add(current)
            if program.chars[current] is not None:
                self.threads[current] = start
            elif program.next[current]:
                stack += program.next[current]
            else:
                matched = True
        return matched


class Matcher:
    """Runs a program over text that arrives in pieces, looking for a match anywhere in it."""

    def __init__(self, program: Program, max_length: int) -> None:
        self._program = program
        self._max_length = max_length
        self._position = 0
        self._front = _Front()
        self._front.enter(program, 0, 0)

    @property
    def num_held(self) -> int:
        """Characters at the end of the text that may turn out to be the beginning of a match."""
        return self._position - next(iter(self._front.threads.values()), self._position)

    def feed(self, char: str) -> int:
        """Read a character. Returns the length of the longest match that ends with it, 0 if there is none.

        Of a match longer than max_length only so many characters count."""
        program = self._program
        self._position += 1
        floor = self._position - self._max_length
        front = _Front()
        length = 0
        for state, start in self._front.threads.items():
            chars = program.chars[state]
            if chars is not None and char in chars:
                begin = max(start, floor)
                for target in program.next[state]:
                    if front.enter(program, target, begin):
                        length = self._position - begin
        front.enter(program, 0, self._position)
        self._front = front
        return length


def _emit(program: Program, node: Node, start: int) -> int:
    """Add the states of a node after the state `start`, which reads nothing. Returns the state after it."""
    if isinstance(node, Chars):
        reader = start
        if program.next[start]:
            reader = _skip(program, start)
        end = program.add(None)
        program.chars[reader], program.next[reader] = node, (end,)
        return end
    if isinstance(node, Sequence):
        if not node.parts:
            return _skip(program, start)
        for part in node.parts:
            start = _emit(program, part, start)
        return start
    if isinstance(node, Choice):
        end = program.add(None)
        for option in node.options:
            first = program.add(None)
            program.next[start] += (first,)
            program.next[_emit(program, option, first)] += (end,)
        return end
    for _ in range(node.least):
        start = _emit(program, node.part, start)
    if node.most is None:
        loop, end = program.add(None), program.add(None)
        program.next[start] += (loop,)
        program.next[loop] += (end,)
        program.next[_emit(program, node.part, loop)] += (loop,)
        return end
    end = program.add(None)
    for _ in range(node.most - node.least):
        program.next[start] += (end,)
        start = _emit(program, node.part, start)
    program.next[start] += (end,)
    return end


def _skip(program: Program, start: int) -> int:
    """Add a state for nothing at all: what is repeated costs states even if it is empty, so it is bounded too."""
    end = program.add(None)
    program.next[start] += (end,)
    return end


class _Parser:
    """Reads a pattern from left to right."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._depth = 0

    def parse(self) -> Node:
        node = self._choice()
        if self._at < len(self._source):
            raise RegexError(f"has an unmatched ')' at {self._at}")
        return node

    def _peek(self) -> str:
        return self._source[self._at : self._at + 1]

    def _take(self) -> str:
        if self._at >= len(self._source):
            raise RegexError("ends too early")
        self._at += 1
        return self._source[self._at - 1]

    def _accept(self, text: str) -> bool:
        if self._source.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _choice(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise RegexError(f"nests groups more than {MAX_DEPTH} deep")
        options = [self._sequence()]
        while self._accept("|"):
            options.append(self._sequence())
        self._depth -= 1
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._atom()))
        return Sequence(tuple(parts))

    def _repeated(self, part: Node) -> Node:
        bounds = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        times = bounds[self._take()] if self._peek() in bounds else self._counted()
        if times is None:
            return part
        self._accept("?")  # lazy or greedy: the first match that is complete counts
        if self._peek() in bounds or self._counted():
            raise RegexError(f"repeats a repetition at {self._at}; put it in a group")
        return Repeat(part, *times)

    def _counted(self) -> tuple[int, int | None] | None:
        """Read {m}, {m,} or {m,n}; anything else in braces is plain text, as everywhere."""
        end = self._source.find("}", self._at)
        if self._peek() != "{" or end < 0:
            return None
        low, comma, high = self._source[self._at + 1 : end].partition(",")
        if not (low + high).isascii() or not low.isdigit() or (high and not high.isdigit()):
            return None
        if len(low) > 4 or len(high) > 4:
            raise RegexError(f"repeats more often than its {MAX_STATES} states allow")
        self._at = end + 1
        least = int(low)
        most = least if not comma else int(high) if high else None
        if most is not None and most < least:
            raise RegexError(f"repeats at least {least} and at most {most} times")
        return least, most

    def _atom(self) -> Node:
        char = self._take()
        if char == "(":
            if self._accept("?") and not self._accept(":"):
                raise RegexError("uses look-around, flags or named groups; only plain groups are supported")
            node = self._choice()
            if not self._accept(")"):
                raise RegexError("has an unmatched '('")
            return node
        if char == "[":
            return self._char_class()
        if char == ".":
            return Chars(frozenset("\n"), negated=True)
        if char == "\\":
            return self._escape()
        if char in "^$":
            raise RegexError(f"uses the anchor {char!r}; anchors are not supported")
        if char in "*+?":
            raise RegexError(f"has nothing to repeat at {self._at - 1}")
        return Chars(frozenset(char))

    def _escape(self) -> Chars:
        char = self._take()
        if char in "dwsDWS":
            return Chars(categories=char)
        if char in _CONTROL:
            return Chars(frozenset(_CONTROL[char]))
        if char in _HEX:
            return Chars(frozenset(self._code_point(_HEX[char])))
        if char.isascii() and char.isalnum():
            raise RegexError(f"uses \\{char}, which is not supported")
        return Chars(frozenset(char))

    def _code_point(self, digits: int) -> str:
        text = self._source[self._at : self._at + digits]
        self._at += digits
        try:
            return chr(int(text, 16))
        except (ValueError, OverflowError):
            raise RegexError(f"has the bad character code {text!r}") from None

    def _char_class(self) -> Chars:
        negated = self._accept("^")
        singles: set[str] = set()
        ranges: list[tuple[str, str]] = []
        categories = ""
        first = True
        while first or self._peek() != "]":
            first = False
            item = self._class_item()
            if item.categories:
                categories += item.categories
                continue
            (low,) = item.singles
            rest = self._source[self._at : self._at + 2]
            if rest.startswith("-") and rest not in ("-", "-]"):
                self._at += 1
                (high,) = self._class_item().singles or ("",)
                if high < low:
                    raise RegexError(f"has the bad range {low!r} to {high!r}")
                ranges.append((low, high))
            else:
                singles.add(low)
        self._at += 1
        return Chars(frozenset(singles), tuple(ranges), categories, negated)

    def _class_item(self) -> Chars:
        char = self._take()
        return self._escape() if char == "\\" else Chars(frozenset(char))


def _in_category(char: str, category: str) -> bool:
    kind = category.lower()
    if kind == "d":
        found = char.isdecimal()
    elif kind == "w":
        found = char.isalnum() or char == "_"
    else:
        found = char.isspace()
    return found is category.islower()
