"""Tests of banyan.commands.arguments."""

import pytest

from banyan.commands.arguments import Arguments, parse
from banyan.config.errors import UserError


def test_words_and_switches_come_in_any_order() -> None:
    given = parse("show", ["--json", "m"], takes=("a model",), switches=("--json",))
    assert given == Arguments(("m",), frozenset({"--json"}))
    assert given == parse("show", ["m", "--json"], takes=("a model",), switches=("--json",))


def test_behind_two_dashes_all_are_words() -> None:
    assert parse("rm", ["--", "--json"], takes=("a model",)).words == ("--json",)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "rm needs a model"),
        (["a", "b"], "rm takes a model, but 'b' was given too"),
        (["a", "--jsn"], "unknown flag --jsn for rm; did you mean --json"),
    ],
)
def test_anything_else_is_refused(argv: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        parse("rm", argv, takes=("a model",), switches=("--json",))


def test_a_verb_without_words_says_so() -> None:
    with pytest.raises(UserError, match="ls takes no words"):
        parse("ls", ["x"])
