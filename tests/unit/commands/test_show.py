"""Tests of banyan.commands.show."""

import re
from pathlib import Path

import msgspec
import pytest

from banyan.commands import show
from banyan.config.errors import UserError
from tests.unit.commands.models import put_model


def test_a_model_is_described_in_words(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_model(cache, "pypi:tiny")
    assert show.prepare(["pypi:tiny"])() == 0
    told = dict(re.split(r" {2,}", line) for line in capsys.readouterr().out.splitlines())
    assert told["context length"] == "128"
    assert told["tensor formats"] == "20 F32"
    assert told["has chat template"] == "yes"


def test_a_model_is_described_for_programs(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = put_model(cache, "pypi:tiny")
    assert show.prepare(["pypi:tiny", "--json"])() == 0
    said = msgspec.json.decode(capsys.readouterr().out)
    assert said["path"] == str(path)
    assert said["tensor_formats"] == {"F32": 20}
    assert (said["makes"], said["has_chat_template"], said["num_layers"]) == ("text", True, 2)


def test_the_oracle_has_no_network_to_describe(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert show.prepare(["oracle"])() == 0
    out = capsys.readouterr().out
    assert "layers" not in out
    assert "32,768" in out


def test_what_is_not_here_is_not_fetched(cache: Path) -> None:
    with pytest.raises(UserError, match="banyan pull smollm2:135m"):
        show.prepare(["smollm2"])()
