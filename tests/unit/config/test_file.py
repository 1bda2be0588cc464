"""Tests of banyan.config.file."""

from pathlib import Path

import pytest

from banyan.config.errors import ConfigError
from banyan.config.file import read_yaml


def write(folder: Path, text: str) -> Path:
    path = folder / "engine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_groups_become_dotted_names_and_values_stay_text(tmp_path: Path) -> None:
    path = write(tmp_path, "memory:\n  page_size: 16\ndisagg: {mode: null}\nmodel: oracle\n")
    entries = read_yaml(path)
    assert [(entry.key, entry.value) for entry in entries] == [
        ("memory.page_size", "16"),
        ("disagg.mode", "null"),
        ("model", "oracle"),
    ]
    assert entries[0].where == f"{path} line 2, memory.page_size"


def test_an_empty_text_in_quotes_is_a_value(tmp_path: Path) -> None:
    assert [entry.value for entry in read_yaml(write(tmp_path, "record: ''\n"))] == [""]


def test_a_name_that_stands_twice_is_listed_twice(tmp_path: Path) -> None:
    assert len(read_yaml(write(tmp_path, "seed: 1\nseed: 2\n"))) == 2


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "memory:\n  # page_size: 16\nseed:\n"])
def test_an_empty_file_asks_for_nothing(tmp_path: Path, text: str) -> None:
    assert read_yaml(write(tmp_path, text)) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n- b\n", "`name: value` lines"),
        ("seed: [1, 2]\n", "line 1: seed must have a single value"),
        ("memory:\n  page: {size: 1}\n", "line 2: memory.page must have a single value"),
        ("? [a]\n: 1\n", "line 1: a name is expected"),
        ("seed: 'open\n", "is not YAML"),
        ("a: 1\n---\nb: 2\n", "is not YAML"),
    ],
)
def test_what_is_not_names_and_values_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_yaml(write(tmp_path, text))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_tag_makes_no_object(tmp_path: Path) -> None:
    [entry] = read_yaml(write(tmp_path, "seed: !!python/name:os.system 'x'\n"))
    assert entry.value == "x"


def test_a_missing_file_a_folder_and_a_binary_file_are_named(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, said in ((tmp_path / "no", "No such file"), (tmp_path, "directory"), (binary, "UTF-8")):
        with pytest.raises(ConfigError, match=said) as caught:
            read_yaml(path)
        assert str(path) in str(caught.value)
