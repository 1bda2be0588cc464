"""banyan generate: start an engine, stream one answer, stop the engine."""

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

from msgspec import Meta

from banyan.config.describe import flag_help
from banyan.config.env import setting_variables
from banyan.config.errors import UserError
from banyan.config.fields import Value, group_leaves
from banyan.config.load import ENGINE_LEAVES, FILE_LEAVES, read
from banyan.config.spec import EngineConfig, Group, about
from banyan.engine import Engine
from banyan.launch.supervisor import LaunchError
from banyan.text.request import RequestError
from banyan.text.result import EndInfo


class SamplingConfig(Group, frozen=True, kw_only=True):
    """How the one answer is sampled; the rest of the sampling parameters keep their defaults."""

    max_new_tokens: Annotated[int, Meta(ge=1), about("Longest answer, in tokens.", "--max-new-tokens")] = 128
    temperature: Annotated[
        float, Meta(ge=0, le=100), about("0 takes the likeliest token each time.", "--temperature")
    ] = 1.0


SAMPLING_LEAVES = group_leaves("sampling", SamplingConfig)


def help_text() -> str:
    """Say how `banyan generate` is used."""
    flags = flag_help((*SAMPLING_LEAVES, *FILE_LEAVES, *ENGINE_LEAVES))
    return f"usage: banyan generate PROMPT [flags]\n\nflags:\n{flags}"


def prepare(argv: Sequence[str]) -> Callable[[], int]:
    """Read the arguments of `banyan generate`."""
    loaded = read(argv, setting_variables(), SAMPLING_LEAVES)
    if len(loaded.words) != 1:
        raise UserError(
            f"generate needs one prompt, but {len(loaded.words)} were given; put quotes around one that has spaces"
        )
    sampling = {leaf.name: loaded.extra[leaf.path] for leaf in SAMPLING_LEAVES}
    return functools.partial(_run, loaded.words[0], sampling, loaded.config)


def _run(prompt: str, sampling: dict[str, Value], config: EngineConfig) -> int:
    try:
        with Engine(config=config) as engine:
            return _stream(engine, prompt, sampling)
    except (LaunchError, RequestError) as error:
        raise UserError(str(error)) from None


def _stream(engine: Engine, prompt: str, sampling: dict[str, Value]) -> int:
    """Print the answer as it grows; exit status 1 if it did not come to its own end."""
    written = 0
    ended: EndInfo | None = None
    for chunk in engine.generate(prompt, sampling, stream=True):
        print(chunk["text"][written:], end="", flush=True)
        written = len(chunk["text"])
        ended = chunk["meta_info"]["finish_reason"]
    print()
    if ended is None or ended["type"] in ("abort", "error"):
        print(f"banyan: the answer is cut off: {ended['message'] if ended else 'no end came'}", file=sys.stderr)
        return 1
    return 0
