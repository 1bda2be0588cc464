"""LocalModel: a model that lies on this machine, and how to recognise one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from banyan.sources.errors import SourceError

Kind = Literal["gguf", "hf", "oracle"]

# What is taken of a folder of Hugging Face's form, as patterns. No code and no pickles: what is not here cannot run.
MODEL_FILES: Final = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "modules.json",
    "1_Pooling/config.json",
    "*.safetensors",
    "*.safetensors.index.json",
)


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A file or folder of a known kind."""

    path: Path  # a .gguf file, or a folder with a config.json
    kind: Kind
    name: str
    licence: str = ""  # as its source states it; empty if it states none


ORACLE: Final = LocalModel(Path("oracle"), "oracle", "oracle")


def local_model(path: Path, name: str = "", licence: str = "") -> LocalModel:
    """Recognise the model at a path. Nothing in it is read yet, and nothing in it is ever run."""
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise SourceError(f"{path} is a folder without a config.json, so no model")
        return LocalModel(path, "hf", name or path.resolve().name, licence)
    if not path.is_file():
        raise SourceError(f"there is no model at {path}")
    if path.suffix.lower() != ".gguf":
        raise SourceError(f"{path} is neither a .gguf file nor a folder with a config.json and safetensors")
    return LocalModel(path, "gguf", name or path.stem, licence)
