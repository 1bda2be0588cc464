"""Tests of banyan.config.spec."""

import msgspec
import pytest

from banyan.config.spec import EngineConfig, about


def test_about_carries_help_line_flags_and_switches() -> None:
    meta = about("What it is.", "--first", "--second", switches={"--off": 0})
    assert meta.description == "What it is."
    assert meta.extra_json_schema == {"banyan": {"flags": ["--first", "--second"], "switches": {"--off": 0}}}


def test_a_config_is_frozen_and_can_be_compared_and_hashed() -> None:
    config = EngineConfig()
    with pytest.raises(AttributeError):
        setattr(config.memory, "page_size", 8)  # noqa: B010 - the type checker would refuse the plain form
    assert len({config, EngineConfig()}) == 1


def test_a_config_survives_json() -> None:
    assert msgspec.json.decode(msgspec.json.encode(EngineConfig()), type=EngineConfig) == EngineConfig()


def test_an_unknown_name_is_refused_when_decoding() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"memory": {"pages": 1}}', type=EngineConfig)
