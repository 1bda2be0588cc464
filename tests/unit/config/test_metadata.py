import numpy as np
import pytest

from banyan.config.errors import ConfigError
from banyan.config.metadata import Metadata

DATA = Metadata(
    {
        "word": "x",
        "whole": 3,
        "minus": -1,
        "half": 0.5,
        "nan": float("nan"),
        "yes": True,
        "words": ["a"],
        "list": np.ones(2),
    }
)


def test_values_are_read_by_their_type() -> None:
    assert DATA.word("word") == "x"
    assert DATA.whole("whole") == DATA.number("whole") == 3
    assert DATA.number("half") == 0.5
    assert DATA.flag("yes", False)
    assert DATA.words("words") == ["a"]
    assert DATA.numbers("list").tolist() == [1, 1]
    assert "word" in DATA and "none" not in DATA and len(list(DATA)) == 8


def test_what_is_missing_has_a_default_or_is_refused() -> None:
    assert (DATA.word("none", "d"), DATA.whole("none", 1), DATA.flag("none", True)) == ("d", 1, True)
    assert DATA.words("none") == [] and len(DATA.numbers("none")) == 0
    with pytest.raises(ConfigError, match="has no none"):
        DATA.whole("none")


@pytest.mark.parametrize(
    ("method", "key", "message"),
    [
        ("word", "whole", "word|should be a string, not 3"),
        ("whole", "minus", "should be a whole number, not -1"),
        ("whole", "yes", "should be a whole number, not True"),
        ("whole", "half", "should be a whole number"),
        ("whole", "list", "not a list of 2"),
        ("number", "nan", "should be a number, not nan"),
        ("number", "word", "should be a number, not 'x'"),
        ("words", "list", "should be a list of strings"),
        ("numbers", "words", "should be a list of numbers"),
    ],
)
def test_another_type_is_refused_by_name(method: str, key: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        getattr(DATA, method)(key)
