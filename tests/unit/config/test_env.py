"""Tests of banyan.config.env."""

from pathlib import Path

import pytest

from banyan.config import env


def test_only_variables_with_the_prefix_and_a_value_count() -> None:
    environ = {"BANYAN_MEMORY_PAGE_SIZE": "16", "BANYAN_SCHEDULE_SEED": "", "HOME": "/root", "XBANYAN_A": "1"}
    assert env.setting_variables(environ) == {"BANYAN_MEMORY_PAGE_SIZE": "16"}


def test_own_variables_are_no_settings() -> None:
    assert env.setting_variables(dict.fromkeys(env.OWN_VARIABLES, "x")) == {}


@pytest.mark.parametrize(
    "name",
    [
        "BANYAN_SERVICE_HOST",
        "BANYAN_SERVICE_PORT",
        "BANYAN_SERVICE_PORT_HTTP",
        "BANYAN_PORT",
        "BANYAN_PORT_30000_TCP",
        "BANYAN_PORT_30000_TCP_ADDR",
        "BANYAN_CHAT_SERVICE_HOST",
        "BANYAN_CHAT_PORT_80_UDP_PROTO",
    ],
)
def test_what_kubernetes_sets_for_a_service_is_known(name: str) -> None:
    assert env.is_service_link(name)


@pytest.mark.parametrize("name", ["BANYAN_MEMROY_PAGE_SIZE", "BANYAN_PORTS", "BANYAN_SERVICE", "XBANYAN_PORT"])
def test_other_names_are_not_taken_for_those(name: str) -> None:
    assert not env.is_service_link(name)


def test_cache_dir_prefers_our_variable_then_the_desktop_standard_then_home() -> None:
    assert env.cache_dir({"BANYAN_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a")
    assert env.cache_dir({"XDG_CACHE_HOME": "/b"}) == Path("/b/banyan")
    assert env.cache_dir({}) == Path.home() / ".cache/banyan"


def test_a_program_that_we_start_gets_the_environment_with_changes() -> None:
    environ = {"A": "1", "B": "2"}
    assert env.with_variables({"B": "3", "C": "4"}, environ) == {"A": "1", "B": "3", "C": "4"}
    assert environ == {"A": "1", "B": "2"}


def test_the_real_environment_is_read_when_called_not_when_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANYAN_SCHEDULE_SEED", "7")
    assert env.setting_variables()["BANYAN_SCHEDULE_SEED"] == "7"


def test_what_is_in_effect_is_told_without_its_secrets() -> None:
    environ = {
        "HF_TOKEN": "hf_abc",
        "BANYAN_SERVER_API_KEY": "abc",
        "BANYAN_SERVER_APIKEY": "abc",
        "BANYAN_MEMORY_MAX_TOTAL_TOKENS": "64",
        "BANYAN_MODEL_TOKENIZER": "byte",
        "BANYAN_SCHEDULE_SEED": "",
        "HOME": "/root",
        "AWS_SECRET_ACCESS_KEY": "abc",
    }
    assert env.effective_variables(environ) == {
        "BANYAN_MEMORY_MAX_TOTAL_TOKENS": "64",
        "BANYAN_MODEL_TOKENIZER": "byte",
        "BANYAN_SERVER_APIKEY": "***",
        "BANYAN_SERVER_API_KEY": "***",
        "HF_TOKEN": "***",
    }


def test_colour_can_be_declined() -> None:
    assert env.wants_colour({"NO_COLOR": ""})
    assert not env.wants_colour({"NO_COLOR": "1"})
    assert not env.wants_colour({"TERM": "dumb"})
