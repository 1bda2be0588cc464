"""Tests of banyan.text.incremental: the shapes that go wrong, and what decoding costs."""

import pytest
import tokenizers
from tokenizers import decoders, models

from banyan.text.incremental import MAX_WINDOW, IncrementalDecoder, find_printable_text
from banyan.text.tokenizer import Tokenizer, byte_tokenizer


class Counting(Tokenizer):
    """A tokenizer that counts the ids it decodes."""

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        super().__init__(inner)
        self.num_decoded = 0

    def decode_batch(self, batch: list[list[int]], *, skip_special_tokens: bool = True) -> list[str]:
        self.num_decoded += sum(map(len, batch))
        return super().decode_batch(batch, skip_special_tokens=skip_special_tokens)


def metaspace() -> tokenizers.Tokenizer:
    """A vocabulary as of sentencepiece: spaces are part of tokens, and rare bytes are tokens of their own."""
    words = ["<unk>", "▁Hello", "▁world", "▁", "!", "wide"]
    vocab = {word: i for i, word in enumerate([*words, *(f"<0x{byte:02X}>" for byte in range(256))])}
    inner = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=[], byte_fallback=True))
    inner.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return inner


def stream(decoder: IncrementalDecoder, chunks: list[list[int]], context: list[int] | None = None) -> list[str]:
    status = decoder.start(0, context or [])
    out = []
    for i, chunk in enumerate(chunks):
        status.decode_ids += chunk
        out += decoder.advance([status], [i == len(chunks) - 1])
    assert status.decoded_text == "".join(out)
    return out


BYTES = IncrementalDecoder(byte_tokenizer())


def test_find_printable_text_leaves_out_the_unfinished_end() -> None:
    assert find_printable_text("a\ufffdb\ufffd\ufffd") == "a\ufffdb"
    assert find_printable_text("\ufffd") == ""
    assert find_printable_text("done") == "done"


def test_a_character_in_pieces_comes_out_whole() -> None:
    chunks = [[byte] for byte in "a😀b€".encode()]
    assert stream(BYTES, chunks) == ["a", "", "", "", "😀", "b", "", "", "€"]


def test_broken_bytes_come_out_once_it_is_clear_that_they_are_broken() -> None:
    assert stream(BYTES, [[0xF0, 0x9F], [0x41], [0xE2], []]) == ["", "\ufffdA", "", "\ufffd"]


def test_the_context_is_not_repeated() -> None:
    assert stream(BYTES, [[66], [67]], context=[65, 0xE2]) == ["B", "C"]


@pytest.mark.parametrize("size", [MAX_WINDOW - 1, MAX_WINDOW, MAX_WINDOW + 1, 5 * MAX_WINDOW + 3])
@pytest.mark.parametrize("end", [b"A", b"\x9f\x98\x80", b"\xf0\x9f\x98\x80", b"", b"\xff"])
def test_a_long_run_of_broken_bytes_is_kept_until_it_ends(size: int, end: bytes) -> None:
    data = b"x" + b"\x80" * size + b"\xf0" + end + b"!"
    out = stream(BYTES, [[byte] for byte in data])
    assert "".join(out) == data.decode("utf-8", "replace")
    assert not any(text.endswith("\ufffd") for text in out[:-1])


@pytest.mark.parametrize("pattern", [b"hello ", "日本語".encode(), b"\x80", b"\xf0", b"\x98\x80\xf0\x9f"])
def test_decoding_costs_linear_time(pattern: bytes) -> None:
    tokenizer = Counting(byte_tokenizer()._inner)
    decoder = IncrementalDecoder(tokenizer)
    costs = []
    for size in (1000, 2000):
        tokenizer.num_decoded = 0
        stream(decoder, [[byte] for byte in (pattern * size)[:size]])
        costs.append(tokenizer.num_decoded)
    assert costs[1] <= 2.2 * costs[0]
    assert costs[1] <= 4 * MAX_WINDOW * 2000


def test_memory_does_not_grow_with_the_output() -> None:
    status = BYTES.start(0, [1] * 8)
    for _ in range(1000):
        status.decode_ids.append(65)
        BYTES.advance([status], [False])
        status.decoded_text = ""
        assert len(status.decode_ids) <= MAX_WINDOW + 9


def test_spaces_survive_where_a_token_depends_on_the_one_before() -> None:
    decoder = IncrementalDecoder(Tokenizer(metaspace()))
    assert decoder.stride == 1
    assert stream(decoder, [[1], [2], [3], [5], [4]]) == ["Hello", " world", " ", "wide", "!"]
    assert stream(decoder, [[2], [1]], context=[1]) == [" world", " Hello"]


def test_byte_fallback_tokens_make_one_character() -> None:
    decoder = IncrementalDecoder(Tokenizer(metaspace()))
    chunks = [[1], *([6 + byte] for byte in "你".encode()), [4]]
    assert stream(decoder, chunks) == ["Hello", "", "", "你", "!"]


def test_many_requests_advance_together() -> None:
    statuses = [BYTES.start(i, [65] * i) for i in range(5)]
    for i, status in enumerate(statuses):
        status.decode_ids += [97 + i, 0xC3]
    assert BYTES.advance(statuses, [False] * 5) == ["a", "b", "c", "d", "e"]
    for status in statuses:
        status.decode_ids.append(0xA9)
    assert BYTES.advance(statuses, [False] * 4 + [True]) == ["é"] * 5
