"""Tests of banyan.commands.config."""

from pathlib import Path

import pytest

from banyan.commands import config
from banyan.config.card import read_card
from banyan.config.describe import table
from banyan.config.errors import ConfigError, UserError
from banyan.config.host import Host
from banyan.config.load import ENGINE_LEAVES, load, read
from banyan.config.resolve import resolve

HOST = Host(platform="linux-test", cpu="test", num_cores=2, total_bytes=10**10, available_bytes=10**10)


def test_each_value_says_where_it_comes_from() -> None:
    loaded = read(["--page-size", "32", "--max-total-tokens", "100"], {"BANYAN_SCHEDULE_SEED": "7"})
    lines = config.shown(loaded, HOST).splitlines()
    assert "  page_size: 32  # --page-size" in lines
    assert "  seed: 7  # BANYAN_SCHEDULE_SEED" in lines
    assert "  depth: 2  # auto: the host prepares one step while the device runs another" in lines
    assert "  stream_interval: 1" in lines
    assert "  max_total_tokens: 96  # --max-total-tokens: 100 is not a whole number of pages of 32 tokens" in lines


def test_what_is_shown_can_be_loaded_and_is_settled(tmp_path: Path) -> None:
    loaded = read(["--context-length", "512", "--served-model-name", "a # b"])
    path = tmp_path / "settled.yaml"
    path.write_text(config.shown(loaded, HOST))
    assert load(["--config", str(path)]) == resolve(loaded.config, HOST, read_card("oracle")).config


def test_show_prints_for_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert config.prepare(["show", "--page-size", "8"])() == 0
    assert "page_size: 8  # --page-size" in capsys.readouterr().out


def test_show_reads_the_environment(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("BANYAN_MEMORY_PAGE_SIZE", "8")
    assert config.prepare(["show"])() == 0
    assert "page_size: 8  # BANYAN_MEMORY_PAGE_SIZE" in capsys.readouterr().out


def test_table_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert config.prepare(["table"])() == 0
    assert capsys.readouterr().out == table()


@pytest.mark.parametrize("argv", [[], ["list"], ["table", "--seed"], ["show", "word"]])
def test_wrong_words_are_refused(argv: list[str]) -> None:
    with pytest.raises(UserError):
        config.prepare(argv)


def test_a_contradiction_is_refused_when_shown_not_when_read() -> None:
    run = config.prepare(["show", "--page-size", "64", "--context-length", "32"])
    with pytest.raises(ConfigError, match="--page-size 64"):
        run()


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(UserError, match="there is no model 'gpt'; known are"):
        config.prepare(["show", "--model", "gpt"])()


def test_the_help_has_every_flag() -> None:
    text = config.help_text()
    assert "--config" in text
    assert all(leaf.main_flag in text for leaf in ENGINE_LEAVES)
