"""Arguments of the small verbs: a fixed number of words, and switches. Verbs that take settings use config.load."""

from collections.abc import Sequence
from dataclasses import dataclass

from banyan.config.errors import UserError, suggest


@dataclass(frozen=True, slots=True)
class Arguments:
    """What was given."""

    words: tuple[str, ...]
    switches: frozenset[str]


def parse(verb: str, argv: Sequence[str], *, takes: Sequence[str] = (), switches: Sequence[str] = ()) -> Arguments:
    """Read the arguments of a verb that takes exactly these words, which are named for messages."""
    words: list[str] = []
    given: set[str] = set()
    for place, word in enumerate(argv):
        if word == "--":
            words.extend(argv[place + 1 :])
            break
        if not word.startswith("-"):
            words.append(word)
        elif word in switches:
            given.add(word)
        else:
            raise UserError(f"unknown flag {word} for {verb}{suggest(word, switches)}")
    if len(words) < len(takes):
        raise UserError(f"{verb} needs {takes[len(words)]}, see `banyan {verb} --help`")
    if len(words) > len(takes):
        raise UserError(f"{verb} takes {' and '.join(takes) or 'no words'}, but {words[len(takes)]!r} was given too")
    return Arguments(tuple(words), frozenset(given))
