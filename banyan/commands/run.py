"""banyan run: fetch a model if it is not here, and chat with it, or have it answer one question."""

import contextlib
import functools
import importlib
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Annotated, Any, Final

from banyan.commands.answer import Responder
from banyan.commands.chat import CHAT_LEAVES, Chat
from banyan.commands.layout import dim
from banyan.commands.pull import fetch
from banyan.commands.repl import Repl, footer
from banyan.config.card import ModelCard
from banyan.config.describe import flag_help
from banyan.config.env import cache_dir, setting_variables, wants_colour
from banyan.config.errors import UserError
from banyan.config.fields import Value, changed, group_leaves
from banyan.config.load import ENGINE_LEAVES, FILE_LEAVES, Loaded, read
from banyan.config.spec import EngineConfig, Group, about
from banyan.engine import Engine
from banyan.launch.supervisor import LaunchError
from banyan.sources.card import model_card
from banyan.sources.catalogue import DEFAULT_MODEL
from banyan.text.request import RequestError
from banyan.text.result import Output
from banyan.text.template import load_chat_template

_HELP: Final = f"""usage: banyan run [MODEL] [PROMPT] [flags]

With a prompt, or with one on standard input, the model answers it; else a chat begins, in which /? helps.
MODEL is what `banyan pull` takes, or a path; default {DEFAULT_MODEL}.

flags:
"""


class PersonaConfig(Group, frozen=True, kw_only=True):
    """What the model is told before the conversation."""

    system: Annotated[str, about("Instruction that the conversation begins with.", "--system")] = ""


PERSONA_LEAVES: Final = group_leaves("persona", PersonaConfig)


def help_text() -> str:
    """Say how `banyan run` is used."""
    return _HELP + flag_help((*CHAT_LEAVES, *PERSONA_LEAVES, *FILE_LEAVES, *ENGINE_LEAVES))


def prepare(argv: Sequence[str]) -> Callable[[], int]:
    """Read the arguments of `banyan run`."""
    loaded = read(argv, setting_variables(), (*CHAT_LEAVES, *PERSONA_LEAVES))
    if len(loaded.words) > 2:  # a model and a prompt
        raise UserError(
            f"run takes a model and a prompt, but {len(loaded.words)} words were given; put quotes around the prompt"
        )
    prompt = loaded.words[1] if len(loaded.words) > 1 else None
    parameters = {leaf.name: loaded.extra[leaf.path] for leaf in CHAT_LEAVES}
    return functools.partial(_run, settings(loaded), prompt, parameters, str(loaded.extra[PERSONA_LEAVES[0].path]))


def settings(loaded: Loaded) -> EngineConfig:
    """Settle which model runs, and keep the log of a chat to what went wrong, unless it was asked for."""
    asked: dict[str, Value] = {}
    by = loaded.origins.get("model.path", "")
    if loaded.words:
        if by.startswith("--"):
            raise UserError(f"{by} and {loaded.words[0]!r} both name a model; leave {by} out")
        asked["model.path"] = loaded.words[0]
    elif not by:
        asked["model.path"] = DEFAULT_MODEL
    if "observe.log_level" not in loaded.origins:
        asked["observe.log_level"] = "warning"
    return changed(loaded.config, asked)


def _run(config: EngineConfig, prompt: str | None, parameters: dict[str, Value], system: str) -> int:
    if prompt is None and not sys.stdin.isatty():
        prompt = _read_stdin()
    if prompt is not None and not prompt.strip():
        raise UserError("the prompt is empty; give one behind the model, or on standard input")
    card = model_card(fetch(config.model.path, cache_dir(), sys.stderr))
    if not card.is_generation:
        raise UserError(f"{card.name} makes vectors, not text, so it cannot answer; `banyan ls` lists other models")
    start = time.monotonic()
    try:
        with Engine(config=config) as engine:
            _note(f"{card.name} is ready after {time.monotonic() - start:.1f} s")
            template = load_chat_template(engine.attachment.settled.tokenizer, engine.tokenizer_manager.tokenizer)
            responder = Responder(functools.partial(_generate, engine), template, sys.stdout)
            chat = Chat(_about(card, has_template=template is not None), parameters, system)
            if prompt is not None:
                return _answer_once(chat, responder, prompt)
            _load_line_editing()
            print("/? helps, /bye leaves" if template is not None else "no chat template: it goes on with your text")
            Repl(chat, responder, input, sys.stdout, _dim_out).run()
    except (LaunchError, RequestError) as error:
        raise UserError(str(error)) from None
    return 0


def _read_stdin() -> str:
    try:
        return sys.stdin.read().rstrip("\n")  # `echo` adds one, and a model would take it for a new paragraph
    except UnicodeDecodeError as error:
        raise UserError(f"standard input is not UTF-8 text: {error.reason} at byte {error.start}") from None


def _answer_once(chat: Chat, responder: Responder, prompt: str) -> int:
    """Write one answer; exit status 1 if it did not come to its own end, and that of Ctrl-C if it was stopped."""
    chat.ask(prompt)
    answer = responder.respond(chat.messages, chat.sampling())
    if answer.was_stopped:
        raise KeyboardInterrupt
    if answer.problem:
        print(f"banyan: the answer is cut off: {answer.problem}", file=sys.stderr)
        return 1
    _note(footer(answer))
    return 0


def _generate(
    engine: Engine, *, prompt: str | None, input_ids: Sequence[int] | None, sampling_params: Mapping[str, Any]
) -> Generator[Output, None, None]:
    return engine.generate(prompt, sampling_params, input_ids, stream=True)


def _about(card: ModelCard, *, has_template: bool) -> str:
    family = card.architecture.family if card.architecture is not None else "no network"
    form = "chat" if has_template else "completion: it has no chat template"
    return f"{card.name} ({family}, context {card.context_length:,}, {form})"


def _load_line_editing() -> None:
    # To load it is enough: input() then has a history and arrow keys. Some builds of Python are without.
    with contextlib.suppress(ImportError):
        importlib.import_module("readline")


def _note(text: str) -> None:
    print(dim(text, sys.stderr, wants_colour=wants_colour()), file=sys.stderr)


def _dim_out(text: str) -> str:
    return dim(text, sys.stdout, wants_colour=wants_colour())
