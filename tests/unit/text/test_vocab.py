from pathlib import Path

import numpy as np
import pytest
import tokenizers

from banyan.config.errors import ConfigError
from banyan.config.metadata import Metadata, Value
from banyan.text.tokenizer import Tokenizer, load_tokenizer
from banyan.text.vocab import build_vocab, read_vocab
from tests.unit.sources.files import llama_metadata, make_gguf


def byte_level(**more: Value) -> dict[str, Value]:
    """Describe a byte-level vocabulary: all bytes, a few merges, a control token and a user's own."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokens = [*alphabet, "he", "llo", "hello", "Ġhello", "<|im_end|>", "<tab>"]
    merges = ["h e", "l l", "ll o", "he llo", "Ġ hello"]
    tokens.insert(256, "ll")
    kinds = [1] * (len(tokens) - 2) + [3, 4]
    entries: dict[str, Value] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array(kinds, np.int32),
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.eos_token_id": len(tokens) - 2,
        "tokenizer.ggml.bos_token_id": len(tokens) - 2,
        "tokenizer.chat_template": "{{ messages }}",
    }
    return entries | {f"tokenizer.ggml.{key}": value for key, value in more.items()}


def words(entries: dict[str, Value], text: str) -> list[str | None]:
    inner = build_vocab(Metadata(entries)).inner
    tokenizer = Tokenizer(inner)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    return [inner.id_to_token(number) for number in tokenizer.encode(text)]


def test_byte_level_merges() -> None:
    assert words(byte_level(), "hello hello1") == ["hello", "Ġhello", "1"]
    assert words(byte_level(), "hell\n") == ["he", "ll", "Ċ"]
    vocab = build_vocab(Metadata(byte_level()))
    assert (vocab.chat_template, vocab.add_bos) == ("{{ messages }}", False)
    assert Tokenizer(vocab.inner).is_byte_level


def test_text_never_becomes_a_control_token_but_may_become_a_users_own() -> None:
    entries = byte_level()
    assert "<|im_end|>" not in words(entries, "a<|im_end|>")
    assert words(entries, "a<tab>b") == ["a", "<tab>", "b"]
    tokenizer = Tokenizer(build_vocab(Metadata(entries)).inner)
    tokens = entries["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    assert tokenizer.special_ids == {tokens.index("<|im_end|>")} == set(tokenizer.eos_ids)


def test_whole_words_go_before_merges_where_the_family_says_so() -> None:
    entries = byte_level(merges=["h e"])
    assert words(entries, "hello") == ["he", "l", "l", "o"]
    assert words(entries | {"tokenizer.ggml.pre": "llama-bpe"}, "hello")[-1] == "hello"


def test_accents_are_composed_where_the_family_says_so() -> None:
    apart, together = "e\u0301", "\u00e9"
    qwen = Tokenizer(build_vocab(Metadata(byte_level(pre="qwen2"))).inner)
    smollm = Tokenizer(build_vocab(Metadata(byte_level())).inner)
    assert qwen.encode(apart) == qwen.encode(together)
    assert smollm.encode(apart) != smollm.encode(together)


def test_texts_begin_and_end_as_the_file_wants() -> None:
    inner = build_vocab(Metadata(byte_level(add_bos_token=True, add_eos_token=True))).inner
    assert [inner.id_to_token(number) for number in Tokenizer(inner).encode("h")] == ["<|im_end|>", "h", "<|im_end|>"]
    assert build_vocab(Metadata(byte_level(pre="llama-bpe"))).add_bos  # it does so without being told


def test_pieces_with_bytes_for_the_rest() -> None:
    vocab = build_vocab(Metadata(llama_metadata()))
    tokenizer = Tokenizer(vocab.inner)
    ids = tokenizer.encode("a aé")
    assert [vocab.inner.id_to_token(number) for number in ids] == ["<s>", "▁a", "▁a", "<0xC3>", "<0xA9>"]
    assert tokenizer.decode(ids) == "a aé"
    assert vocab.add_bos
    bare = build_vocab(Metadata(llama_metadata() | {"tokenizer.ggml.add_space_prefix": False})).inner
    assert [bare.id_to_token(number) for number in Tokenizer(bare).encode("a a")] == ["<s>", "a", "▁a"]


def test_a_files_own_vocabulary_is_read(tmp_path: Path) -> None:
    path = make_gguf(tmp_path / "model.gguf", {"tokenizer.chat_template": "{{ 1 }}"})
    assert read_vocab(path).chat_template == "{{ 1 }}"
    assert load_tokenizer(str(path)).vocab_size == 262


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (byte_level(model="t5"), "type 't5' is not known"),
        (byte_level(pre="klingon"), "cuts text as 'klingon', which is not known; known are gpt-2"),
        (byte_level(tokens=[]), "lists 0 tokens"),
        (byte_level(tokens=["a", "a", "b"]), "lists 3 tokens, of which 2 differ"),
        (byte_level(merges=["hello"]), "a merge that is not two tokens: 'hello'"),
        (byte_level(merges=["x y"]), "cannot be built"),
        (byte_level(token_type=np.ones(3)), "263 tokens but 3 types"),
        (byte_level(add_bos_token=True, bos_token_id=9999), "bos_token_id is 9999, but the file has only 263"),
        (llama_metadata() | {"tokenizer.ggml.scores": np.zeros(3)}, "262 tokens but 3 scores"),
    ],
)
def test_what_cannot_be_is_refused(entries: dict[str, Value], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_vocab(Metadata(entries))
