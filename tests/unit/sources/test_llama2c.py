import struct
from pathlib import Path

import numpy as np
import pytest

from banyan.sources.card import model_card
from banyan.sources.errors import BadFileError
from banyan.sources.gguf import read_gguf
from banyan.sources.llama2c import convert
from banyan.sources.local import local_model
from tests.unit.sources.files import Array

HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, VOCAB, CONTEXT = 8, 12, 2, 4, 2, 261, 16


def sizes() -> dict[str, tuple[int, ...]]:
    kv = HIDDEN // HEADS * KV_HEADS
    return {
        "embedding": (VOCAB, HIDDEN),
        "attn_norm": (LAYERS, HIDDEN),
        "q": (LAYERS, HIDDEN, HIDDEN),
        "k": (LAYERS, kv, HIDDEN),
        "v": (LAYERS, kv, HIDDEN),
        "o": (LAYERS, HIDDEN, HIDDEN),
        "ffn_norm": (LAYERS, HIDDEN),
        "gate": (LAYERS, INNER, HIDDEN),
        "down": (LAYERS, HIDDEN, INNER),
        "up": (LAYERS, INNER, HIDDEN),
        "norm": (HIDDEN,),
        "freqs": (2, CONTEXT, HIDDEN // HEADS // 2),
    }


def model() -> tuple[bytes, dict[str, Array]]:
    rng = np.random.default_rng(0)
    parts: dict[str, Array] = {name: rng.standard_normal(size, np.float32) for name, size in sizes().items()}
    head = struct.pack("<7i", HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, VOCAB, CONTEXT)
    pieces = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(bytes([byte]) for byte in range(256)), b" t", "é".encode()]
    tokens = struct.pack("<i", 7) + b"".join(
        struct.pack("<fi", -float(number), len(piece)) + piece for number, piece in enumerate(pieces)
    )
    return head + b"".join(part.tobytes() for part in parts.values()) + tokens, parts


def test_every_number_and_token_arrives(tmp_path: Path) -> None:
    raw, parts = model()
    (tmp_path / "data").write_bytes(raw)
    path = tmp_path / "model.gguf"
    convert(tmp_path / "data", path, "tiny")
    header = read_gguf(path)
    content = path.read_bytes()

    def numbers(name: str) -> Array:
        [entry] = [entry for entry in header.tensors if entry.name == name]
        found: Array = np.frombuffer(content, np.float32, entry.num_bytes // 4, entry.offset).reshape(entry.shape)
        return found

    assert len(header.tensors) == 2 + 9 * LAYERS
    assert np.array_equal(numbers("token_embd.weight"), parts["embedding"])
    assert np.array_equal(numbers("output_norm.weight"), parts["norm"])
    assert np.array_equal(numbers("blk.1.attn_k.weight"), parts["k"][1])
    assert np.array_equal(numbers("blk.0.ffn_down.weight"), parts["down"][0])
    tokens = header.metadata.words("tokenizer.ggml.tokens")
    assert [tokens[number] for number in (0, 1, 2, 3, 258, 259, 260)] == [
        *("<unk>", "<s>", "</s>", "<0x00>", "<0xFF>", "▁t", "é"),
    ]
    card = model_card(local_model(path))
    assert (card.vocab_size, card.context_length, card.bos_id, card.eos_ids) == (VOCAB, CONTEXT, 1, (2,))
    assert card.architecture is not None and card.architecture.num_kv_heads == KV_HEADS


@pytest.mark.parametrize("cut", [10, 28, 1000, -20])
def test_a_torn_file_is_refused(tmp_path: Path, cut: int) -> None:
    (tmp_path / "data").write_bytes(model()[0][:cut])
    with pytest.raises(BadFileError, match=r"not a model|cut short|tokens that cannot"):
        convert(tmp_path / "data", tmp_path / "out", "tiny")


def test_numbers_that_cannot_be_are_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(struct.pack("<7i", 8, 12, 2, 3, 2, 261, 16) + bytes(100))
    with pytest.raises(BadFileError, match=r"not a model of llama2\.c"):
        convert(tmp_path / "data", tmp_path / "out", "tiny")
