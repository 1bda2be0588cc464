"""Tests of banyan.config.load."""

import re
from pathlib import Path

import pytest

from banyan.config.errors import ConfigError
from banyan.config.fields import Leaf, as_text, group_leaves, value_at
from banyan.config.load import ENGINE_LEAVES, FileConfig, Names, from_options, load, read
from banyan.config.spec import EngineConfig


def write(folder: Path, text: str) -> str:
    path = folder / "engine.yaml"
    path.write_text(text)
    return str(path)


def refused(argv: str, **variables: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(argv.split(), variables)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_nothing_asked_for_is_the_default() -> None:
    assert load([]) == EngineConfig()


@pytest.mark.parametrize(
    "argv",
    ["--page-size 8", "--page-size=8", "--block-size 8", "--memory.page-size 8", "--memory.page_size=8"],
)
def test_every_spelling_reaches_the_setting(argv: str) -> None:
    assert load(argv.split()).memory.page_size == 8


@pytest.mark.parametrize("leaf", ENGINE_LEAVES, ids=[leaf.path for leaf in ENGINE_LEAVES])
def test_every_setting_is_reached_from_every_source(tmp_path: Path, leaf: Leaf) -> None:
    text = other_value(leaf)
    flags = (leaf.path_flag, *leaf.flags)
    configs = [load([flag, text]) for flag in flags]
    configs += [load([f"{flag}={text}"]) for flag in flags]
    configs += [load([], {leaf.variable: text})]
    configs += [load(["--config", write(tmp_path, f"{leaf.group}:\n  {leaf.name}: {text}\n")])]
    configs += [load(["--config", write(tmp_path, f"{flag.removeprefix('--')}: {text}\n")]) for flag in flags]
    configs += [from_options({name.removeprefix("--").replace("-", "_"): text}) for name in flags]
    configs += [from_options({leaf.path.replace(".", "_"): text})]
    assert configs == [configs[0]] * len(configs)
    assert as_text(value_at(configs[0], leaf)) == text
    assert configs[0] != EngineConfig()


def other_value(leaf: Leaf) -> str:
    """The first of a few values that this setting allows and that is not its default."""
    candidates: list[str] = ["16", "2.5", "true", *re.findall("`(.*?)`", leaf.allowed), "some-text"]
    for text in candidates:
        try:
            value = leaf.parse(text, "test")
        except ConfigError:
            continue
        if value != leaf.default and as_text(value) == text:
            return text
    raise AssertionError(f"no value to try for {leaf.path}")


def test_switches_set_their_value() -> None:
    config = load(["--disable-overlap-schedule", "--disable-radix-cache"])
    assert (config.schedule.depth, config.memory.cache) == (1, "chunk")


def test_the_nearer_source_wins(tmp_path: Path) -> None:
    file = write(tmp_path, "memory:\n  page_size: 4\n  cache: chunk\nseed: 1\nstream-interval: 3\n")
    variables = {"BANYAN_MEMORY_PAGE_SIZE": "8", "BANYAN_SCHEDULE_SEED": "2"}
    loaded = read(["--page-size", "32", "--config", file], variables)
    assert loaded.config.memory.page_size == 32
    assert loaded.config.schedule.seed == 2
    assert loaded.config.memory.cache == "chunk"
    assert loaded.origins == {
        "memory.page_size": "--page-size",
        "schedule.seed": "BANYAN_SCHEDULE_SEED",
        "memory.cache": f"{file} line 3, memory.cache",
        "schedule.stream_interval": f"{file} line 5, stream-interval",
    }


def test_a_default_asked_for_on_the_command_line_beats_the_file(tmp_path: Path) -> None:
    assert load(["--page-size", "auto", "--config", write(tmp_path, "page-size: 4")]).memory.page_size == "auto"


def test_an_unknown_flag_is_answered_with_the_nearest() -> None:
    assert refused("--pagesize 3") == "unknown flag --pagesize; did you mean --page-size?"
    assert refused("--memory.pagesize 3").endswith("did you mean --memory.page-size?")
    assert refused("--disable-radix-cach").endswith("did you mean --disable-radix-cache?")
    assert refused("-page-size 3").startswith("unknown flag -page-size")


def test_a_wrong_value_names_flag_value_and_what_is_allowed() -> None:
    said = refused("--block-size 0")
    for part in ("--block-size", "0", "an integer from 1 to 1024 or `auto`"):
        assert part in said
    assert "BANYAN_MEMORY_CACHE" in refused("", BANYAN_MEMORY_CACHE="lru")


@pytest.mark.parametrize("argv", ["--page-size", "--page-size --seed 3", "--seed 1 --config"])
def test_a_flag_without_its_value_is_refused(argv: str) -> None:
    assert "needs a value" in refused(argv)


def test_a_negative_number_is_a_value() -> None:
    assert "-1 is not allowed" in refused("--page-size -1")


def test_a_yes_or_no_flag_needs_no_value() -> None:
    on = load(["--debug.oracle-faults"])
    assert on.debug.oracle_faults is True
    assert on == load(["--debug.oracle-faults", "true"]) == load(["--debug.oracle-faults=true"])
    assert load(["--debug.oracle-faults", "false"]) == load(["--debug.oracle-faults=false"]) == EngineConfig()
    assert read(["--debug.oracle-faults", "hello"]).words == ("hello",)


def test_a_value_may_start_with_dashes_behind_an_equals_sign() -> None:
    assert load(["--record=--odd"]).observe.record == "--odd"
    assert load(["--record="]).observe.record == ""


def test_a_switch_takes_no_value() -> None:
    assert "takes no value" in refused("--disable-radix-cache=false")


def test_two_values_for_one_setting_are_refused_with_both_names() -> None:
    said = refused("--page-size 8 --block-size 16")
    for part in ("--page-size", "8", "--block-size", "16", "memory.page_size"):
        assert part in said
    assert "--disable-radix-cache" in refused("--prefix-cache radix --disable-radix-cache")
    assert "config.file" in refused("--config a --config b")


def test_the_same_value_twice_is_no_contradiction() -> None:
    assert load(["--page-size", "8", "--block-size", "8", "--memory.page-size=8"]).memory.page_size == 8


def test_two_values_in_one_file_are_refused_with_both_lines(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"line 2.*line 3"):
        load(["--config", write(tmp_path, "memory:\n  page_size: 4\nblock-size: 8\n")])


def test_an_unknown_variable_is_answered_with_the_nearest() -> None:
    said = refused("", BANYAN_MEMROY_PAGE_SIZE="3")
    assert said == "unknown variable BANYAN_MEMROY_PAGE_SIZE; did you mean BANYAN_MEMORY_PAGE_SIZE?"
    assert "BANYAN_MEMORY_PAGE_SIZE" in refused("", BANYAN_PAGE_SIZE="3")


def test_variables_of_a_kubernetes_service_are_ignored() -> None:
    assert load([], {"BANYAN_PORT": "tcp://10.0.0.1:80", "BANYAN_CHAT_SERVICE_HOST": "10.0.0.1"}) == EngineConfig()


def test_an_unknown_name_in_the_file_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"line 2.*unknown setting memory\.pagesize; did you mean memory\.page-size\?"
    ):
        load(["--config", write(tmp_path, "memory:\n  pagesize: 4\n")])


def test_a_file_cannot_name_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown setting config"):
        load(["--config", write(tmp_path, "config: other.yaml\n")])


def test_a_name_that_is_group_and_flag_is_told_apart_by_its_value(tmp_path: Path) -> None:
    flat = load(["--config", write(tmp_path, "recovery: stop\n")])
    nested = load(["--config", write(tmp_path, "recovery: {mode: stop}\n")])
    assert flat == nested
    assert flat.recovery.mode == "stop"


def test_a_switch_in_a_file_is_true_or_false(tmp_path: Path) -> None:
    assert load(["--config", write(tmp_path, "disable-radix-cache: true\n")]).memory.cache == "chunk"
    assert load(["--config", write(tmp_path, "disable-radix-cache: false\n")]).memory.cache == "radix"
    with pytest.raises(ConfigError, match="`true` or `false`"):
        load(["--config", write(tmp_path, "disable-radix-cache: chunk\n")])


def test_words_are_kept_in_order_and_two_dashes_end_the_flags() -> None:
    loaded = read(["hello", "--page-size", "8", "-", "--", "--page-size", "9"])
    assert loaded.words == ("hello", "-", "--page-size", "9")
    assert loaded.config.memory.page_size == 8
    assert "nothing but flags" in refused("hello")


def test_a_command_may_have_settings_of_its_own() -> None:
    extra = group_leaves("own", FileConfig)
    loaded = read(["--own.file", "x"], extra=extra)
    assert loaded.extra == {"own.file": "x"}
    assert loaded.config == EngineConfig()
    assert loaded.origins == {}
    assert read([], extra=extra).extra == {"own.file": ""}


def test_keyword_arguments_take_values_of_their_own_type() -> None:
    config = from_options({"page_size": 8, "memory.cache": "chunk", "queue_timeout": 5, "max_model_len": "64"})
    assert config.memory.page_size == 8
    assert config.memory.cache == "chunk"
    assert config.schedule.queue_timeout_s == 5.0
    assert config.model.context_length == 64


def test_a_path_as_keyword_has_an_underscore_for_its_dot() -> None:
    assert from_options({"debug_oracle_step_ms": 2.5}).debug.oracle_step_ms == 2.5
    names = Names(ENGINE_LEAVES)
    for leaf in ENGINE_LEAVES:  # no such keyword is the flag of another setting
        assert names.leaf(leaf.path.replace(".", "_")) in (leaf, None)


def test_keyword_arguments_beat_the_environment() -> None:
    variables = {"BANYAN_MEMORY_PAGE_SIZE": "8", "BANYAN_SCHEDULE_SEED": "2"}
    config = from_options({"page_size": 16}, variables)
    assert (config.memory.page_size, config.schedule.seed) == (16, 2)


def test_switches_as_keyword_arguments() -> None:
    assert from_options({"disable_radix_cache": True}).memory.cache == "chunk"
    assert from_options({"disable_radix_cache": False}).memory.cache == "radix"
    with pytest.raises(ConfigError, match="`true` or `false`"):
        from_options({"disable_radix_cache": [1]})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pagesize": 8}, "did you mean page-size"),
        ({"page_size": True}, "an integer from 1 to 1024"),
        ({"page_size": 8, "block_size": 16}, "block_size"),
    ],
)
def test_wrong_keyword_arguments_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        from_options(options)
