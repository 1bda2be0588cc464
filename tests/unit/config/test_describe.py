"""Tests of banyan.config.describe."""

from pathlib import Path

import pytest
import yaml

from banyan.config.describe import as_yaml, flag_help, table
from banyan.config.load import ENGINE_LEAVES, load
from banyan.config.spec import EngineConfig


def test_the_help_names_every_flag_and_says_what_it_takes() -> None:
    text = flag_help(ENGINE_LEAVES)
    for leaf in ENGINE_LEAVES:
        for flag in (*leaf.flags, *leaf.switches) or (leaf.path_flag,):
            assert flag in text
        assert leaf.allowed.replace("`", "") in text


def test_the_help_of_a_setting_reads_as_two_lines() -> None:
    [leaf] = [leaf for leaf in ENGINE_LEAVES if leaf.path == "schedule.depth"]
    assert flag_help([leaf]).splitlines() == [
        "  --schedule-depth",
        "      Steps in flight: 1 is the normal loop, 2 overlaps host and device. "
        "Takes an integer from 1 to 65 or auto; default auto.",
        "  --disable-overlap-schedule",
        "      The same as --schedule-depth 1.",
    ]


def test_the_table_has_a_row_for_every_setting_and_no_ragged_row() -> None:
    text = table()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == [leaf.path for leaf in ENGINE_LEAVES]
    assert {row.count(" | ") for row in rows} == {4}


def test_a_setting_without_a_flag_of_its_own_shows_its_path_flag() -> None:
    assert "| `debug.check_every` | `--debug.check-every` |" in table()


@pytest.mark.parametrize("text", ["plain/path.json", "a b: # c", "null", "Yes", "", "é\u2028\x07", "- x", "'\"", "5"])
def test_a_written_config_can_be_loaded_again(tmp_path: Path, text: str) -> None:
    config = load([f"--record={text}", "--page-size=8", "--disaggregation-mode=decode"])
    path = tmp_path / "engine.yaml"
    path.write_text(as_yaml(config, {"memory.page_size": "two\nlines", "observe.record": "here"}))
    assert load(["--config", str(path)]) == config


def test_a_written_config_means_the_same_to_other_yaml_readers() -> None:
    read = yaml.safe_load(as_yaml(EngineConfig(), {}))
    assert read["disagg"]["mode"] == "null"
    assert read["observe"]["record"] == ""
    assert read["debug"]["oracle_faults"] is False


def test_notes_stand_behind_their_setting() -> None:
    assert "  page_size: auto  # because\n" in as_yaml(EngineConfig(), {"memory.page_size": "because"})
