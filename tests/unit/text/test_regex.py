"""Tests of banyan.text.regex: the same language as the standard library's, without its worst case."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banyan.text.regex import MAX_DEPTH, Matcher, RegexError, compile_regex

LONG = 1 << 20


def first_match(source: str, text: str, max_length: int = LONG) -> str | None:
    """Return the longest text that matches and ends at the first place where one ends."""
    matcher = Matcher(compile_regex(source), max_length)
    for i, char in enumerate(text):
        if length := matcher.feed(char):
            return text[i + 1 - length : i + 1]
    return None


def expected(source: str, text: str) -> str | None:
    """The same by brute force with the standard library."""
    pattern = re.compile(source)
    for end in range(1, len(text) + 1):
        for start in range(end):
            if pattern.fullmatch(text, start, end):
                return text[start:end]
    return None


ATOMS = st.sampled_from(["a", "b", "ab", ".", "[ab]", "[^a]", r"\d", r"\w", "c", "(?:a|bc)", "(ab|)", "[a-c]"])
TIMES = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"])
PARTS = st.lists(st.tuples(ATOMS, TIMES).map("".join), min_size=1, max_size=4).map("".join)
PATTERNS = st.one_of(PARTS, st.tuples(PARTS, PARTS).map("|".join), PARTS.map(lambda part: f"x({part})*c"))


@settings(deadline=None)
@given(PATTERNS, st.text(alphabet="abcx1\n", max_size=12))
def test_agrees_with_the_standard_library(source: str, text: str) -> None:
    if re.compile(source).fullmatch(""):
        with pytest.raises(RegexError, match="matches the empty text"):
            compile_regex(source)
    else:
        assert first_match(source, text) == expected(source, text)


@settings(deadline=None)
@given(PATTERNS.filter(lambda source: not re.fullmatch(source, "")), st.text(alphabet="abcx1", max_size=12))
def test_what_is_held_back_covers_every_later_match(source: str, text: str) -> None:
    matcher = Matcher(compile_regex(source), LONG)
    held = [0]
    for i, char in enumerate(text):
        length = matcher.feed(char)
        if length:
            assert all(i + 1 - length >= at - size for at, size in enumerate(held))
            break
        held.append(matcher.num_held)


@pytest.mark.parametrize(
    ("source", "text", "match"),
    [
        (r"\n\n+", "a\n\nb", "\n\n"),
        (r"[\]\-x]+!", "a]-x!", "]-x!"),
        (r"[a\d-]{2}", "..-7", "-7"),
        (r"[]a]", "x]", "]"),
        (r"\x41\u00e9\U0001F600", "Aé😀", "Aé😀"),
        (r"a\.b\\", "a.b\\", "a.b\\"),
        (r"a{,2}", "aa{,2}", "a{,2}"),
        (r"{x}", "{x}", "{x}"),
        (r"\S+\s\W\D", "ab !c", "ab !c"),
        (r"\t|\0", "a\0", "\0"),
        ("😀+", "😀", "😀"),
    ],
)
def test_syntax(source: str, text: str, match: str) -> None:
    assert first_match(source, text) == match


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("(a", "unmatched '\\('"),
        ("a)", "unmatched '\\)' at 1"),
        ("*a", "nothing to repeat at 0"),
        ("a**", "repeats a repetition"),
        ("a{2}{3}", "repeats a repetition"),
        ("a{3,2}", "at least 3 and at most 2"),
        ("a{100000}", "repeats more often"),
        ("[b-a]", "bad range 'b' to 'a'"),
        (r"[a-\d]", "bad range"),
        ("[abc", "ends too early"),
        ("a\\", "ends too early"),
        ("^a", "anchor '\\^'"),
        ("a$", "anchor"),
        (r"a\b", r"uses \\b"),
        (r"(a)\1", r"uses \\1"),
        ("(?=a)", "look-around"),
        ("(?P<x>a)", "named groups"),
        (r"\xzz", "bad character code 'zz'"),
        (r"\UFFFFFFFF", "bad character code"),
        ("(a{1,1000}){1,1000}", "more than 320 states"),
        ("x((){999}){999}", "more than 320 states"),
        ("(" * 200 + "a" + ")" * 200, f"more than {MAX_DEPTH} deep"),
        ("a*", "matches the empty text"),
        ("", "matches the empty text"),
    ],
)
def test_what_is_refused(source: str, reason: str) -> None:
    with pytest.raises(RegexError, match=reason):
        compile_regex(source)


@pytest.mark.parametrize("source", ["(a+)+b", "(a|a)*b", "(a*)*b", "a*a*a*a*a*a*b", "(.*.*)+=", "(a?){60}a{60}b"])
def test_no_pattern_hangs(source: str) -> None:
    started = time.process_time()
    assert first_match(source, "a" * 1000) is None
    assert time.process_time() - started < 2


def test_a_long_literal_fits() -> None:
    assert first_match("ab" * 128, "x" + "ab" * 128) == "ab" * 128


def test_a_match_that_is_too_long_is_cut_at_its_front() -> None:
    text = "<" + "a" * 50 + ">"
    assert first_match("<a*>", text, max_length=10) == text[-10:]
    matcher = Matcher(compile_regex("<a*>"), 10)
    for char in text[:-1]:
        matcher.feed(char)
        assert matcher.num_held <= 10
