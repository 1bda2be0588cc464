"""Chat: a conversation as a person types it. Takes lines, keeps messages and parameters, says what is to be done."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from msgspec import Meta

from banyan.commands.layout import columns
from banyan.config.errors import ConfigError, suggest
from banyan.config.fields import Value, as_text, group_leaves
from banyan.config.spec import Auto, Group, about

QUOTES: Final = '"""'
HELP: Final = '''/set parameter NAME VALUE  change how answers are sampled, e.g. /set parameter temperature 0
/set system TEXT           begin the conversation anew, with this instruction
/show                      show model, parameters and instruction
/clear                     forget the conversation
/bye                       leave; so does Ctrl-D
"""                        begins a message of several lines, and ends it
Ctrl-C                     stops an answer'''


class ChatConfig(Group, frozen=True, kw_only=True):
    """How answers are sampled. Small models talk better a little below temperature 1."""

    max_new_tokens: Annotated[int, Meta(ge=1), about("Longest answer, in tokens.", "--max-new-tokens")] = 1024
    temperature: Annotated[
        float, Meta(ge=0, le=100), about("0 takes the likeliest token each time.", "--temperature")
    ] = 0.7
    top_p: Annotated[float, Meta(gt=0, le=1), about("Tokens that make up this probability.", "--top-p")] = 0.95
    top_k: Annotated[int, Meta(ge=-1), about("This many likeliest tokens; -1: all.", "--top-k")] = -1
    min_p: Annotated[float, Meta(ge=0, le=1), about("Tokens of this share of the likeliest.", "--min-p")] = 0.0
    repetition_penalty: Annotated[
        float, Meta(gt=0, le=2), about("Above 1: what was said is less likely.", "--repetition-penalty")
    ] = 1.0
    presence_penalty: Annotated[
        float, Meta(ge=-2, le=2), about("Above 0: new tokens are likelier.", "--presence-penalty")
    ] = 0.0
    frequency_penalty: Annotated[
        float, Meta(ge=-2, le=2), about("Above 0: frequent tokens are less likely.", "--frequency-penalty")
    ] = 0.0
    sampling_seed: Annotated[
        Annotated[int, Meta(ge=0, le=2**63 - 1)] | Auto, about("Seed of the answers.", "--sampling-seed")
    ] = "auto"
    stop: Annotated[str, Meta(max_length=256), about("Text at which an answer ends.", "--stop")] = ""


CHAT_LEAVES: Final = group_leaves("chat", ChatConfig)
_BY_NAME: Final = {leaf.name: leaf for leaf in CHAT_LEAVES}
# Ollama's names for the same.
_ALIASES: Final = {"num_predict": "max_new_tokens", "seed": "sampling_seed", "repeat_penalty": "repetition_penalty"}


@dataclass(frozen=True, slots=True)
class Ask:
    """The model is to answer the messages."""


@dataclass(frozen=True, slots=True)
class Say:
    """The person is to be told this."""

    text: str


@dataclass(frozen=True, slots=True)
class More:
    """The message goes on in the next line."""


@dataclass(frozen=True, slots=True)
class Leave:
    """The person wants to go."""


Action = Ask | Say | More | Leave


class Chat:
    """A conversation. Each `Ask` is to be followed by `answered` or `unanswered`."""

    def __init__(self, about_model: str, parameters: Mapping[str, Value], system: str = "") -> None:
        self.messages: list[dict[str, str]] = []
        self._about_model = about_model
        self._parameters = dict(parameters)
        self._system = system
        self._lines: list[str] | None = None  # of a message that is not complete
        self._clear()

    def feed(self, line: str) -> Action:
        """Take a line that was typed."""
        if self._lines is not None:
            return self._continue(line)
        text = line.strip()
        if text.startswith(QUOTES):
            self._lines = []
            return self._continue(text.removeprefix(QUOTES))
        if text.startswith("/"):
            return self._command(text)
        return self.ask(text) if text else Say("")

    def ask(self, text: str) -> Ask:
        """Take a whole message."""
        # A terminal that is set up wrongly gives halves of characters, which no tokenizer takes.
        self.messages.append({"role": "user", "content": text.encode(errors="replace").decode()})
        return Ask()

    def drop_line(self) -> None:
        """Forget the lines of a message that is not complete."""
        self._lines = None

    def answered(self, text: str) -> None:
        """Keep what the model said; an answer that was stopped counts as far as it got."""
        self.messages.append({"role": "assistant", "content": text})

    def unanswered(self) -> None:
        """Forget the last question: there is no answer."""
        self.messages.pop()

    def sampling(self) -> dict[str, Any]:
        """Return the parameters as the engine takes them."""
        chosen: dict[str, Any] = {**self._parameters, "stop": [text] if (text := self._parameters["stop"]) else []}
        if chosen["sampling_seed"] == "auto":
            del chosen["sampling_seed"]
        return chosen

    def _continue(self, line: str) -> Action:
        lines = self._lines if self._lines is not None else []
        is_last = line.rstrip().endswith(QUOTES)
        lines.append(line.rstrip().removesuffix(QUOTES) if is_last else line)
        if not is_last:
            return More()
        self._lines = None
        text = "\n".join(lines).strip("\n")
        return self.ask(text) if text.strip() else Say("")

    def _command(self, text: str) -> Action:
        word, _, rest = text.partition(" ")
        match word:
            case "/bye" | "/exit" | "/quit":
                return Leave()
            case "/?" | "/help":
                return Say(HELP)
            case "/clear":
                self._clear()
                return Say("the conversation is forgotten")
            case "/show":
                return Say(self._shown())
            case "/set":
                return Say(self._set(rest.strip()))
            case _:
                near = suggest(word, ("/set", "/show", "/clear", "/bye", "/help"))
                return Say(f"unknown command {word}, see /?{near}")

    def _set(self, rest: str) -> str:
        what, _, rest = rest.partition(" ")
        if what == "system":
            self._system = rest.strip()
            self._clear()
            return "the conversation begins anew"
        name, _, text = rest.strip().partition(" ")
        if what != "parameter" or not text.strip():
            return "usage: /set parameter NAME VALUE, or /set system TEXT"
        leaf = _BY_NAME.get(_ALIASES.get(name, name))
        if leaf is None:
            return f"unknown parameter {name}{suggest(name, _BY_NAME)}; known are {', '.join(_BY_NAME)}"
        try:
            self._parameters[leaf.name] = leaf.parse(text.strip(), "/set")
        except ConfigError as error:
            return str(error)
        return f"{leaf.name} is {as_text(self._parameters[leaf.name])}"

    def _shown(self) -> str:
        rows = [(name, as_text(value) or "none") for name, value in self._parameters.items()]
        rows = [("model", self._about_model), *rows, ("system", self._system or "none")]
        return columns([*rows, ("messages", str(len(self.messages)))])

    def _clear(self) -> None:
        self.messages[:] = [{"role": "system", "content": self._system}] if self._system else []
