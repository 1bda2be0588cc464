"""Tests of banyan.config.errors."""

from banyan.config.errors import ConfigError, UserError, suggest


def test_the_nearest_name_is_suggested() -> None:
    assert suggest("--pag-size", ["--seed", "--page-size", "--stage-size"]) == "; did you mean --page-size?"


def test_nothing_is_suggested_when_nothing_is_near() -> None:
    assert suggest("--zzz", ["--page-size"]) == ""


def test_a_bad_setting_is_a_mistake_of_the_user() -> None:
    assert issubclass(ConfigError, UserError)
