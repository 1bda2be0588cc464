import pytest
from tokenizers import Regex, pre_tokenizers

from banyan.text.splits import SPLITS

TEXT = "It's 12345 été,\n\n  don't! x=日本語 HelloWorld"


def cut(name: str, text: str) -> list[str]:
    steps = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in SPLITS[name]]
    return [piece for piece, _ in pre_tokenizers.Sequence(steps).pre_tokenize_str(text)]


@pytest.mark.parametrize("name", SPLITS)
def test_nothing_is_lost(name: str) -> None:
    assert "".join(cut(name, TEXT)) == TEXT


def test_families_differ_where_they_should() -> None:
    assert cut("gpt-2", "a 12345") == ["a", " 12345"]
    assert cut("smollm", "a 12345") == ["a", " ", "1", "2", "3", "4", "5"]
    assert cut("llama-bpe", "a 12345") == ["a", " ", "123", "45"]
    assert cut("qwen2", "DON'T 12") == ["DON", "'T", " ", "1", "2"]
    assert cut("gpt-4o", "HelloWorld's") == ["Hello", "World's"]
    assert cut("tekken", "HelloWorld's") == ["Hello", "World", "'s"]
    assert cut("falcon", "1234,x") == ["123", "4", ",", "x"]
    assert cut("deepseek-v3", "日本 1234") == ["日本", " ", "123", "4"]
