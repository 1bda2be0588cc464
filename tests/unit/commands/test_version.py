"""Tests of banyan.commands.version."""

import tomllib
from pathlib import Path

import pytest

from banyan.commands import version
from banyan.config.errors import UserError

ROOT = Path(__file__).parents[3]


def test_the_version_is_the_one_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert version.prepare([])() == 0
    assert capsys.readouterr().out == f"banyan {project['version']}\n"


def test_arguments_are_refused() -> None:
    with pytest.raises(UserError, match="'x'"):
        version.prepare(["x"])
