"""chat_template: the Jinja source that a model came with, wherever it keeps it. It is data until a sandbox runs it."""

from pathlib import Path
from typing import Final

import msgspec

from banyan.sources.errors import BadFileError
from banyan.sources.gguf import read_gguf
from banyan.sources.local import LocalModel

_MAX_BYTES: Final = 1_000_000
_MAX_CONFIG_BYTES: Final = 100_000_000  # some list every token


class _Named(msgspec.Struct, frozen=True):
    name: str
    template: str


class _TokenizerConfig(msgspec.Struct, frozen=True):
    chat_template: str | list[_Named] | None = None


def chat_template(model: LocalModel) -> str:
    """Return the source of a model's chat template; empty if it has none."""
    if model.kind == "oracle":
        return ""
    if model.kind == "gguf":
        found = read_gguf(model.path).metadata.word("tokenizer.chat_template", "")
    else:
        found = _of_folder(model.path)
    if len(found) > _MAX_BYTES:
        raise BadFileError(f"the chat template of {model.name} is longer than {_MAX_BYTES} characters")
    return found


def _of_folder(folder: Path) -> str:
    """Read a file of its own, or the tokenizer's config: one source, or several of which one is the default."""
    own, config = folder / "chat_template.jinja", folder / "tokenizer_config.json"
    try:
        if own.is_file():
            return _read(own, _MAX_BYTES).decode()
        if not config.is_file():
            return ""
        said = msgspec.json.decode(_read(config, _MAX_CONFIG_BYTES), type=_TokenizerConfig).chat_template
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadFileError(f"the chat template of {folder} cannot be read: {error}") from None
    if isinstance(said, list):
        return next((named.template for named in said if named.name == "default"), "")
    return said or ""


def _read(path: Path, limit: int) -> bytes:
    if path.stat().st_size > limit:
        raise BadFileError(f"{path} is longer than {limit} bytes")
    return path.read_bytes()
