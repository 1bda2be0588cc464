"""Tests of banyan.config.hf."""

from typing import Any

import pytest

from banyan.config.errors import ConfigError
from banyan.config.hf import HfConfig


def test_entries_have_types() -> None:
    config = HfConfig({"a": 3, "b": 2.5, "c": "x", "d": True, "e": [1, 2], "f": ["x"], "g": 7})
    assert (config.whole("a"), config.number("b"), config.number("a"), config.word("c")) == (3, 2.5, 3.0, "x")
    assert config.flag("d", default=False)
    assert (config.wholes("e"), config.wholes("g"), config.words("f")) == ((1, 2), (7,), ("x",))


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda c: c.whole("b"), "b should be a whole number, not 2.5"),
        (lambda c: c.whole("d"), "d should be a whole number, not True"),
        (lambda c: c.number("c"), "c should be a number, not 'x'"),
        (lambda c: c.word("b"), "b should be a string, not 2.5"),
        (lambda c: c.flag("c", default=True), "c should be true or false, not 'x'"),
        (lambda c: c.words("c"), "c should be a list, not 'x'"),
        (lambda c: c.wholes("f"), "f should hold whole numbers, not ['x']"),
        (lambda c: c.whole("missing"), "config.json has no missing"),
        (lambda c: c.rope("full_attention"), "rope_scaling should be a group of entries, not 3"),
    ],
)
def test_what_is_wrong_is_refused_by_name(read: Any, said: str) -> None:
    config = HfConfig({"b": 2.5, "c": "x", "d": True, "f": ["x"], "rope_scaling": 3})
    with pytest.raises(ConfigError) as caught:
        read(config)
    assert said in str(caught.value)


def test_what_is_missing_or_null_has_its_default() -> None:
    config = HfConfig({"a": None})
    assert (config.whole("a", 4), config.word("b", "x"), config.wholes("c"), config.words("d")) == (4, "x", (), ())


def test_defaults_of_a_model_class_fill_what_was_left_out_but_not_what_is_null() -> None:
    config = HfConfig({"a": None, "b": 1}).with_defaults(a=2, b=2, c=2)
    assert (config.whole("a", 9), config.whole("b"), config.whole("c")) == (9, 1, 2)


def test_the_language_part_of_a_larger_model_comes_first() -> None:
    config = HfConfig({"hidden_size": 1, "eos_token_id": 5, "text_config": {"hidden_size": 2}})
    assert config.whole("hidden_size") == 2
    assert config.wholes("eos_token_id") == (5,)


@pytest.mark.parametrize(
    "raw",
    [
        {"rope_theta": 5.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_theta": 5.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5.0}},
        {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5.0}}},
    ],
)
def test_a_rotary_embedding_is_read_in_every_spelling(raw: dict[str, object]) -> None:
    rope = HfConfig(raw).rope("full_attention")
    assert (rope.kind(), rope.required("factor"), rope.number("rope_theta", 1.0)) == ("linear", 2.0, 5.0)


def test_sliding_layers_have_their_own_base_and_are_not_stretched() -> None:
    old = HfConfig({"rope_theta": 5.0, "rope_local_base_freq": 7.0, "rope_scaling": {"type": "linear", "factor": 2.0}})
    new = HfConfig({"rope_parameters": {"sliding_attention": {"rope_theta": 7.0, "rope_type": "default"}}})
    for config in (old, new):
        rope = config.rope("sliding_attention")
        assert (rope.kind(), rope.number("rope_theta", 1.0), rope.has("factor")) == ("default", 7.0, False)


def test_whatever_has_factors_of_pairs_is_longrope() -> None:
    rope = HfConfig({"rope_scaling": {"type": "su", "short_factor": [1.0], "long_factor": [2]}}).rope("full_attention")
    assert (rope.kind(), rope.numbers("short_factor"), rope.numbers("long_factor")) == ("longrope", (1.0,), (2.0,))


def test_a_scaling_without_what_it_needs_is_refused() -> None:
    with pytest.raises(ConfigError, match="rope scaling linear has no factor"):
        HfConfig({"rope_scaling": {"type": "linear"}}).rope("full_attention").required("factor")


def test_labels_are_counted() -> None:
    assert HfConfig({"id2label": {"0": "bad", "1": "fair", "2": "good"}}).num_labels() == 3
    assert HfConfig({"num_labels": 1}).num_labels() == 1
    assert HfConfig({}).num_labels() == 2
