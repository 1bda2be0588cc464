"""Tests of banyan.text.tokenizer."""

from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models

from banyan.text.tokenizer import BYTE_SPECIALS, Tokenizer, TokenizerError, byte_tokenizer, load_tokenizer

BYTES = byte_tokenizer()
LITERALS = st.sampled_from([*BYTE_SPECIALS, "<eos", "eos>", " ", "é", "x"])
TEXTS = st.one_of(st.text(), st.lists(LITERALS).map("".join))


def test_an_id_is_the_value_of_its_byte() -> None:
    assert BYTES.encode("héllo\n€😀") == list("héllo\n€😀".encode())
    assert [BYTES.decode([byte]) for byte in range(128)] == [chr(byte) for byte in range(128)]
    assert (BYTES.vocab_size, BYTES.eos_ids, BYTES.special_ids) == (259, (256,), frozenset((256, 257, 258)))
    assert BYTES.is_byte_level


@settings(deadline=None)
@given(TEXTS)
def test_text_never_yields_special_ids_and_comes_back(text: str) -> None:
    ids = BYTES.encode(text)
    assert ids == list(text.encode())
    assert BYTES.decode(ids) == text


@settings(deadline=None)
@given(st.binary())
def test_decoding_is_lossy_utf8(data: bytes) -> None:
    assert BYTES.decode(list(data)) == data.decode("utf-8", "replace")


def test_special_tokens_are_shown_only_when_asked_for() -> None:
    assert BYTES.decode([257, 65, 256]) == "A"
    assert BYTES.decode([257, 65, 256], skip_special_tokens=False) == "<bos>A<eos>"
    assert BYTES.decode_batch([[65, 258], [], [9999]], skip_special_tokens=False) == ["A<pad>", "", ""]


@settings(deadline=None)
@given(TEXTS)
def test_a_text_has_at_least_so_many_tokens(text: str) -> None:
    assert BYTES.fewest_tokens(text) <= len(BYTES.encode(text))
    assert BYTES.fewest_tokens("x" * 500) == 500


def test_tokens_that_print_nothing_are_known() -> None:
    tokens = np.array([0, 255, 256, 258, 259, 2**31 - 1, -1], np.int32)
    assert BYTES.prints(tokens).tolist() == [True, True, False, False, False, False, False]
    assert BYTES.prints(tokens, skip_special_tokens=False).tolist() == [True, True, True, True, False, False, False]


def test_a_file_is_loaded_without_its_truncation_and_padding(tmp_path: Path) -> None:
    inner = tokenizers.Tokenizer(models.BPE(vocab={"a": 0, "b": 1}, merges=[]))
    inner.add_special_tokens(["</s>"])
    inner.enable_truncation(1)
    inner.enable_padding(length=8)
    inner.save(str(tmp_path / "tokenizer.json"))
    for spec in (tmp_path, tmp_path / "tokenizer.json"):
        tokenizer = load_tokenizer(str(spec))
        assert tokenizer.encode("a") == [0]
        assert tokenizer.eos_ids == (2,)
        assert not tokenizer.is_byte_level
        assert tokenizer.fewest_tokens("aaaa") == 0
    assert load_tokenizer("byte").vocab_size == 259


def test_what_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="there is no tokenizer at"):
        load_tokenizer(str(tmp_path / "nothing.json"))
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    with pytest.raises(TokenizerError, match=r"bad\.json is not a tokenizer\.json"):
        load_tokenizer(str(bad))


def test_an_empty_vocabulary_is_allowed() -> None:
    assert Tokenizer(tokenizers.Tokenizer(models.BPE(vocab={}, merges=[]))).vocab_size == 0
