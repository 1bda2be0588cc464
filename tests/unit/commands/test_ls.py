"""Tests of banyan.commands.ls."""

from pathlib import Path

import msgspec
import pytest

from banyan.commands import ls
from banyan.config.errors import UserError
from tests.unit.commands.models import put_model


def test_an_empty_cache_says_what_to_do(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ls.prepare([])() == 0
    assert "banyan pull smollm2" in capsys.readouterr().out
    assert ls.prepare(["--json"])() == 0
    assert msgspec.json.decode(capsys.readouterr().out) == []


def test_models_are_a_table_or_json(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = put_model(cache, "pypi:tiny")
    assert ls.prepare([])() == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["NAME", "SIZE", "KIND", "LICENCE", "SOURCE"]
    assert row.split() == ["pypi:tiny", "0", "MB", "gguf", "MIT", "here"]
    assert ls.prepare(["--json"])() == 0
    (model,) = msgspec.json.decode(capsys.readouterr().out)
    assert (model["name"], model["num_bytes"], model["path"]) == ("pypi:tiny", path.stat().st_size, str(path.parent))


def test_it_takes_no_words() -> None:
    with pytest.raises(UserError):
        ls.prepare(["x"])
