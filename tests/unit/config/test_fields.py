"""Tests of banyan.config.fields."""

from collections import Counter
from typing import Annotated

import pytest
from msgspec import Meta

from banyan.config.errors import ConfigError
from banyan.config.fields import Leaf, Value, all_leaves, as_text, changed, group_leaves, value_at
from banyan.config.spec import EngineConfig, Group, about

LEAVES = {leaf.path: leaf for leaf in all_leaves(EngineConfig)}


class Sample(Group, frozen=True, kw_only=True):
    """A group with one field of each kind."""

    count: Annotated[int, Meta(gt=1, lt=9), about("How many.", "--count", "-c", switches={"--one": 2})] = 4
    ratio: Annotated[float, Meta(ge=0)] = 0.5
    word: str = "x"
    sure: bool = False


class Unreadable(Group, frozen=True, kw_only=True):
    """A group whose field is not a single word."""

    many: tuple[int, ...] = ()


def test_a_leaf_has_all_its_names() -> None:
    leaf = LEAVES["memory.page_size"]
    assert leaf.path_flag == "--memory.page-size"
    assert leaf.variable == "BANYAN_MEMORY_PAGE_SIZE"
    assert leaf.flags == ("--page-size", "--block-size")
    assert leaf.main_flag == "--page-size"
    assert leaf.default == "auto"
    assert leaf.text == "Tokens in a page of KV memory."


def test_a_leaf_without_flags_is_called_by_its_path() -> None:
    assert LEAVES["debug.check_every"].main_flag == "--debug.check-every"


def test_switches_come_with_their_values() -> None:
    assert LEAVES["schedule.depth"].switches == {"--disable-overlap-schedule": 1}


def test_no_name_means_two_settings() -> None:
    names = Counter(
        name for leaf in LEAVES.values() for name in (leaf.path_flag, leaf.variable, *leaf.flags, *leaf.switches)
    )
    assert [name for name, times in names.items() if times > 1] == []


def test_every_setting_has_a_help_line_and_a_default_that_it_allows() -> None:
    for leaf in LEAVES.values():
        assert leaf.text.endswith("."), leaf.path
        assert leaf.check(leaf.default, "default") == leaf.default


def test_every_switch_sets_a_value_that_its_setting_allows() -> None:
    for leaf in LEAVES.values():
        for flag, value in leaf.switches.items():
            assert leaf.check(value, flag) == value


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("memory.page_size", "16", 16),
        ("memory.page_size", "auto", "auto"),
        ("schedule.queue_timeout_s", "5", 5.0),
        ("schedule.queue_timeout_s", "1e3", 1000.0),
        ("disagg.mode", "null", "null"),
        ("model.path", "5", "5"),
        ("model.tokenizer", "auto", "auto"),
        ("observe.record", "", ""),
    ],
)
def test_text_is_read_by_type(path: str, text: str, value: Value) -> None:
    read = LEAVES[path].parse(text, "test")
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("memory.page_size", "0"),
        ("memory.page_size", "1025"),
        ("memory.page_size", "1.5"),
        ("memory.page_size", "Auto"),
        ("memory.page_size", ""),
        ("memory.page_size", "9" * 5000),
        ("schedule.queue_timeout_s", "0"),
        ("schedule.queue_timeout_s", "inf"),
        ("schedule.queue_timeout_s", "nan"),
        ("debug.oracle_step_ms", "-1"),
        ("disagg.mode", "None"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(path: str, text: str) -> None:
    leaf = LEAVES[path]
    with pytest.raises(ConfigError) as caught:
        leaf.parse(text, "--here")
    for part in ("--here", path, leaf.allowed):
        assert part in str(caught.value)
    assert text in str(caught.value)


@pytest.mark.parametrize("value", [True, None, [16], 16.5, float("inf")])
def test_a_value_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(ConfigError):
        LEAVES["memory.page_size"].check(value, "page_size")


def test_an_infinite_number_is_refused_even_as_a_number() -> None:
    with pytest.raises(ConfigError):
        LEAVES["schedule.queue_timeout_s"].check(float("inf"), "queue_timeout")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("memory.page_size", "an integer from 1 to 1024 or `auto`"),
        ("schedule.conservativeness", "a number above 0 and at most 10"),
        ("debug.check_every", "an integer at least 0"),
        ("memory.cache", "one of `chunk`, `radix`"),
        ("model.path", "text"),
    ],
)
def test_what_is_allowed_is_said_in_words(path: str, words: str) -> None:
    assert LEAVES[path].allowed == words


def test_any_group_of_plain_fields_can_be_read() -> None:
    count, ratio, word, sure = group_leaves("sample", Sample)
    assert (count.path, count.flags, count.switches) == ("sample.count", ("--count", "-c"), {"--one": 2})
    assert count.allowed == "an integer above 1 and below 9"
    assert ratio.allowed == "a number at least 0"
    assert (word.allowed, word.text, word.flags) == ("text", "", ())
    assert (sure.allowed, sure.is_bool, word.is_bool) == ("`true` or `false`", True, False)
    assert [sure.parse(text, "--sure") for text in ("true", "false")] == [True, False]
    for text in ("True", "yes", "1", ""):
        with pytest.raises(ConfigError):
            sure.parse(text, "--sure")


def test_a_value_is_written_as_it_is_read() -> None:
    assert [as_text(value) for value in (True, False, 16, 1.0, "null")] == ["true", "false", "16", "1.0", "null"]


def test_a_field_that_no_word_can_hold_is_a_mistake_in_the_spec() -> None:
    with pytest.raises(TypeError, match=r"bad\.many"):
        group_leaves("bad", Unreadable)


def test_changed_replaces_values_by_path_and_leaves_the_rest() -> None:
    config = changed(EngineConfig(), {"memory.page_size": 8, "disagg.mode": "decode"})
    assert config.memory.page_size == 8
    assert config.disagg.mode == "decode"
    assert changed(config, {"memory.page_size": "auto", "disagg.mode": "null"}) == EngineConfig()


def test_value_at_reads_every_leaf() -> None:
    def default(leaf: Leaf) -> Value:
        return value_at(EngineConfig(), leaf)

    assert {path: default(leaf) for path, leaf in LEAVES.items()} == {p: leaf.default for p, leaf in LEAVES.items()}
