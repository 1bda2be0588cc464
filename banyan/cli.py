"""The command line: finds the verb, runs it, and turns a user's mistake into one line and exit status 2."""

import functools
import importlib
import itertools
import os
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, cast

from banyan.config.errors import UserError, suggest


class Command(Protocol):
    """What the module of a verb offers."""

    def help_text(self) -> str:
        """Say how the verb is used."""

    def prepare(self, argv: Sequence[str]) -> Callable[[], int]:
        """Read the verb's arguments and return what they ask for, not yet done."""


class Verb(NamedTuple):
    """A verb and its module, which loads only when the verb is named: so help is quick."""

    module: str
    usage: str
    summary: str


VERBS = {
    "run": Verb("banyan.commands.run", "run [MODEL] [PROMPT] [flags]", "chat with a model, or ask it one thing"),
    "pull": Verb("banyan.commands.pull", "pull MODEL", "fetch a model"),
    "ls": Verb("banyan.commands.ls", "ls [--json]", "list the models that are here"),
    "show": Verb("banyan.commands.show", "show MODEL [--json]", "say what is known of a model"),
    "rm": Verb("banyan.commands.rm", "rm MODEL", "delete a model"),
    "doctor": Verb("banyan.commands.doctor", "doctor [--json]", "check this machine, and say what to do"),
    "generate": Verb("banyan.commands.generate", "generate PROMPT [flags]", "start an engine and stream one answer"),
    "config": Verb("banyan.commands.config", "config show|table [flags]", "show settled settings, or all there are"),
    "replay": Verb("banyan.commands.replay", "replay FILE", "run a recorded scheduler again and compare its steps"),
    "version": Verb("banyan.commands.version", "version", "print the version"),
}

_HELP_FLAGS = ("-h", "--help")


def help_text() -> str:
    """List the verbs."""
    lines = [f"  {verb.usage:<30}{verb.summary}" for verb in VERBS.values()]
    return "\n".join(["usage: banyan VERB ...", "", *lines, "", "banyan VERB --help says more."])


def prepare(argv: Sequence[str]) -> Callable[[], int]:
    """Read a command line and return what it asks for, not yet done."""
    name, *rest = argv or ["--help"]
    if name in _HELP_FLAGS:
        return functools.partial(_print, help_text())
    if name == "--version":
        name = "version"
    if name not in VERBS:
        raise UserError(f"unknown verb {name!r}, see `banyan --help`{suggest(name, VERBS)}")
    command = cast(Command, importlib.import_module(VERBS[name].module))
    if any(word in _HELP_FLAGS for word in itertools.takewhile(lambda word: word != "--", rest)):
        return functools.partial(_print, command.help_text())
    return command.prepare(rest)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    try:
        status = prepare(sys.argv[1:] if argv is None else argv)()
        sys.stdout.flush()  # here and not at exit, so that a closed pipe is seen
    except UserError as error:
        print(f"banyan: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader has gone, as in `banyan config table | head`; what is still buffered has no place to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return status


def _print(text: str) -> int:
    print(text)
    return 0
