"""banyan: a serving engine for large language models. Public names are loaded when they are first used."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from banyan.config.spec import EngineConfig
    from banyan.engine import Engine
    from banyan.offline import LLMEngine
    from banyan.wire.request import SamplingParams

__all__ = ["Engine", "EngineConfig", "LLMEngine", "SamplingParams"]

_HOMES = {
    "Engine": "banyan.engine",
    "EngineConfig": "banyan.config.spec",
    "LLMEngine": "banyan.offline",
    "SamplingParams": "banyan.wire.request",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'banyan' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
