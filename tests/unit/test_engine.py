"""Engine: what it refuses before anything is started. What it does once started is tested on real processes."""

import pytest

import banyan
from banyan.config.errors import ConfigError, UserError
from banyan.config.spec import EngineConfig
from banyan.engine import Engine
from banyan.offline import LLMEngine
from banyan.wire.request import SamplingParams


def test_an_unknown_setting_is_refused_with_a_hint() -> None:
    with pytest.raises(ConfigError, match="page_sise"):
        Engine("oracle", page_sise=16)


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(UserError, match="no-such-model"):
        Engine("no-such-model")


def test_a_config_and_single_settings_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="not both: page_size"):
        Engine(config=EngineConfig(), page_size=16)
    with pytest.raises(ConfigError, match="not both: model_path"):
        Engine("oracle", config=EngineConfig())


def test_public_names_load_on_demand() -> None:
    assert banyan.Engine is Engine
    assert banyan.EngineConfig is EngineConfig
    assert banyan.LLMEngine is LLMEngine
    assert banyan.SamplingParams is SamplingParams
    with pytest.raises(AttributeError, match="has no attribute 'Motor'"):
        getattr(banyan, "Motor")  # noqa: B009 - a plain attribute would not pass the type checker
