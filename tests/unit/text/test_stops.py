"""Tests of banyan.text.stops."""

import pytest

from banyan.text.stops import Match, StopMatcher, trim_eos
from banyan.wire.output import FinishReason


def run(matcher: StopMatcher, chunks: list[str]) -> tuple[list[str], str | None]:
    """Stream chunks. Returns what was sent of each, and what ended it."""
    sent, pending = [], ""
    for chunk in chunks:
        match = matcher.feed(chunk)
        if match is not None:
            pending = (pending + chunk)[: len(pending) + match.end]
            matched = pending[len(pending) - match.length :]
            sent.append(pending[: len(pending) - match.length])
            return sent, matched
        pending += chunk
        keep = len(pending) - matcher.num_held
        sent.append(pending[:keep])
        pending = pending[keep:]
    sent.append(pending)
    return sent, None


def test_a_stop_string_over_several_chunks_is_never_sent() -> None:
    assert run(StopMatcher(("###",), ()), ["ab#", "#", "c#", "##", "d"]) == (["ab", "", "##c", ""], "###")


def test_what_only_looked_like_a_stop_string_is_sent_later() -> None:
    assert run(StopMatcher(("</s>",), ()), ["a<", "/", "b", "<"]) == (["a", "", "</b", "", "<"], None)


def test_the_first_stop_to_be_complete_wins_and_of_those_the_longest() -> None:
    assert run(StopMatcher(("abc", "b"), ()), ["xabc"]) == (["xa"], "b")
    assert run(StopMatcher(("c", "abc", "bc"), ()), ["xabc"]) == (["x"], "abc")


def test_overlapping_beginnings() -> None:
    assert run(StopMatcher(("aab",), ()), list("aaab")) == (["", "", "a", ""], "aab")
    assert run(StopMatcher(("abab!",), ()), list("ababab!"))[1] == "abab!"


def test_patterns_and_strings_together() -> None:
    assert run(StopMatcher(("END",), (r"\n\d+\.",)), ["one\n", "2", ". two END"]) == (["one", "", ""], "\n2.")
    assert run(StopMatcher(("END",), (r"\n\d+\.",)), ["one\n", "x END"]) == (["one", "\nx "], "END")


def test_unarmed_it_lets_matches_pass_and_goes_on() -> None:
    matcher = StopMatcher(("aa",), ("b+c",))
    assert matcher.feed("aabc", armed=False) is None
    assert matcher.num_held == 0
    assert matcher.feed("xa", armed=False) is None
    assert matcher.feed("a") == Match(1, 2)


def test_the_state_does_not_depend_on_the_cuts() -> None:
    text = "xx<e<en<endx"
    for cut in range(len(text)):
        whole, pieces = StopMatcher(("<end>",), ("e.*>",)), StopMatcher(("<end>",), ("e.*>",))
        whole.feed(text)
        pieces.feed(text[:cut])
        pieces.feed(text[cut:])
        assert whole.num_held == pieces.num_held
        assert whole.feed(">") == pieces.feed(">") == Match(1, 10)


@pytest.mark.parametrize(
    ("output", "matched", "trimmed"),
    [("one STOP", "STOP", "one "), ("STOP one STOP", "STOP", "STOP one "), ("one", "STOP", "one"), ("one", 5, "one")],
)
def test_trim_eos_of_text(output: str, matched: int | str, trimmed: str) -> None:
    reason = FinishReason(kind="stop", matched=matched)
    assert trim_eos(output, reason, False) == trimmed
    assert trim_eos(output, reason, True) == output


def test_trim_eos_of_ids() -> None:
    reason = FinishReason(kind="stop", matched=2)
    assert trim_eos([1, 2], reason, False) == [1]
    assert trim_eos([1, 2], reason, True) == [1, 2]
    assert trim_eos([1, 3], reason, False) == [1, 3]
    assert trim_eos(list[int](), reason, False) == []
    assert trim_eos([1, 2], FinishReason(kind="length"), False) == [1, 2]
    assert trim_eos([1, 2], None, False) == [1, 2]
