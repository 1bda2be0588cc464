"""ChatTemplate: a conversation to the prompt that a model was trained on, in a sandbox, with users' text kept as text.

A template is Jinja source that came with a model. It writes special tokens by their names, such as <|im_start|>; users
may write the same names, and those must stay plain characters. So names in what users wrote are marked before
rendering, and only unmarked ones become special tokens.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NoReturn

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from banyan.sources.local import LocalModel
from banyan.sources.template import chat_template
from banyan.text.request import RequestError
from banyan.text.tokenizer import Tokenizer, TokenizerError

MARK: Final = "\ufdd0"  # no character: it cannot be in a text by right
MAX_RENDERED_CHARS: Final = 8 << 20

Message = Mapping[str, object]
JSON = object  # what json.loads gives


class ChatTemplate:
    """Renders conversations. What the source does outside of strings and loops, the sandbox refuses."""

    def __init__(self, source: str, tokenizer: Tokenizer, today: Callable[[], datetime] = datetime.now) -> None:
        self._tokenizer = tokenizer
        self._names = _alternatives(tokenizer.special_names)
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda form: today().strftime(str(form))
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise TokenizerError(f"the chat template cannot be used: {error}") from error

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Message] | None = None,
        add_generation_prompt: bool = True,
        **variables: JSON,
    ) -> str:
        """Return the prompt as text in which users' names of special tokens are marked."""
        try:
            text = self._template.render(
                messages=self._marked(list(messages)),
                tools=self._marked(list(tools)) if tools else None,
                add_generation_prompt=add_generation_prompt,
                bos_token=self._tokenizer.bos_name,
                eos_token=self._tokenizer.eos_name,
                **variables,
            )
        except RequestError:
            raise
        except Exception as error:  # a template may do anything with what it is given
            raise RequestError(400, "messages", f"the chat template refused the conversation: {error}") from error
        if len(text) > MAX_RENDERED_CHARS:
            raise RequestError(400, "messages", f"the conversation has more than {MAX_RENDERED_CHARS} characters")
        return text

    def encode(self, rendered: str) -> list[int]:
        """Turn a rendered prompt into token ids. The template says itself whether the text begins with a token."""
        ids: list[int] = []
        end = 0
        for found in self._names.finditer(rendered):
            ids += self._plain(rendered[end : found.start()])
            ids.append(self._tokenizer.special_names[found.group()])
            end = found.end()
        return ids + self._plain(rendered[end:])

    def _plain(self, text: str) -> list[int]:
        return self._tokenizer.encode_plain(text.replace(MARK, "")) if text else []

    def _marked(self, value: JSON) -> Any:
        """Copy what users wrote, with a mark inside each name of a special token."""
        match value:
            case str():
                return self._names.sub(
                    lambda found: found.group()[0] + MARK + found.group()[1:], value.replace(MARK, "")
                )
            case Mapping():
                return {self._marked(key): self._marked(item) for key, item in value.items()}
            case list() | tuple():
                return [self._marked(item) for item in value]
            case _:
                return value


def load_chat_template(spec: str, tokenizer: Tokenizer) -> ChatTemplate | None:
    """Load the template that lies where a tokenizer was loaded from: in a GGUF file, or in a folder. None: no chat."""
    if spec == "byte":
        return None
    path = Path(spec)
    if path.suffix == ".gguf":
        model = LocalModel(path, "gguf", path.name)
    else:
        folder = path.parent if path.is_file() else path  # a tokenizer.json has its template beside it
        model = LocalModel(folder, "hf", folder.name)
    source = chat_template(model)
    return ChatTemplate(source, tokenizer) if source else None


def unmarked(rendered: str) -> str:
    """Return a rendered prompt as a person would read it."""
    return rendered.replace(MARK, "")


def _alternatives(names: Mapping[str, int]) -> re.Pattern[str]:
    """Match any of some names, the longest that fits; of none, nothing."""
    ordered = sorted(names, key=len, reverse=True)
    return re.compile("|".join(re.escape(name) for name in ordered) or r"(?!)")


def _to_json(value: JSON, indent: int | None = None, **_: JSON) -> str:
    """Write JSON as models have seen it: not escaped for web pages."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    raise RequestError(400, "messages", str(message))
