"""Tests of banyan.commands.layout."""

import io

import msgspec

from banyan.commands.layout import as_json, columns, dim, size


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_sizes_have_the_unit_people_use() -> None:
    assert [size(count) for count in (0, 98_362_432, 999_400_000, 1_117_320_768)] == [
        "0 MB",
        "98 MB",
        "999 MB",
        "1.1 GB",
    ]


def test_columns_are_as_wide_as_their_widest_cell_and_lines_end_with_their_text() -> None:
    assert columns([("a", "bb", "c"), ("aaa", "b", "")]) == "a    bb  c\naaa  b"


def test_json_can_be_read_back() -> None:
    assert msgspec.json.decode(as_json({"a": [1, "é"]})) == {"a": [1, "é"]}


def test_text_is_dim_on_terminals_that_want_it_only() -> None:
    assert dim("x", Terminal(), wants_colour=True) == "\x1b[2mx\x1b[0m"
    assert dim("x", Terminal(), wants_colour=False) == "x"
    assert dim("x", io.StringIO(), wants_colour=True) == "x"
