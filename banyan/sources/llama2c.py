"""Models of llama2.c (a file of plain numbers and one of tokens) into GGUF, which has a place for all they say."""

import struct
from itertools import accumulate, pairwise
from math import prod
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from banyan.config.metadata import Value
from banyan.sources.errors import BadFileError
from banyan.sources.gguf_write import Floats, write_gguf

_NORMAL: Final = 1
_UNKNOWN: Final = 2
_CONTROL: Final = 3
_BYTE: Final = 6
_FIRST_BYTE: Final = 3  # tokens 0, 1 and 2 are <unk>, <s> and </s>; then come the 256 bytes
_LIMIT: Final = 1 << 20  # no number in the header is larger
_HEADER_BYTES: Final = 28
_COMPUTED: Final = ("cosines", "sines")  # stored by llama2.c alone; others compute them


class _Shape(NamedTuple):
    """The header: seven numbers."""

    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    context: int


def convert(data: Path, path: Path, name: str) -> None:
    """Turn a file that holds a model with its tokens behind it into a GGUF file."""
    raw = data.read_bytes()
    shape = _Shape(*struct.unpack_from("<7i", raw)) if len(raw) >= _HEADER_BYTES else None
    if shape is None or not all(0 < number < _LIMIT for number in shape) or shape.hidden % shape.heads:
        raise BadFileError(f"{data} is not a model of llama2.c")
    tensors, end = _tensors(data, raw, shape)
    pieces, scores = _tokens(data, raw, end, shape.vocab)
    head_dim = shape.hidden // shape.heads
    metadata: dict[str, Value] = {
        "general.architecture": "llama",
        "general.name": name,
        "llama.block_count": shape.layers,
        "llama.context_length": shape.context,
        "llama.embedding_length": shape.hidden,
        "llama.feed_forward_length": shape.inner,
        "llama.attention.head_count": shape.heads,
        "llama.attention.head_count_kv": shape.kv_heads,
        "llama.rope.dimension_count": head_dim,
        "llama.rope.freq_base": 10000.0,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.vocab_size": shape.vocab,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": np.array([_kind(token) for token in range(shape.vocab)], np.int32),
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_space_prefix": True,
    }
    write_gguf(path, metadata, tensors)


def _tensors(data: Path, raw: bytes, shape: _Shape) -> tuple[dict[str, Floats], int]:
    """Cut the numbers apart. Those of all layers lie together, kind by kind."""
    layers, hidden, inner = shape.layers, shape.hidden, shape.inner
    head_dim = hidden // shape.heads
    kv = shape.kv_heads * head_dim
    parts: dict[str, tuple[int, ...]] = {
        "token_embd": (shape.vocab, hidden),
        "attn_norm": (layers, hidden),
        "attn_q": (layers, hidden, hidden),
        "attn_k": (layers, kv, hidden),
        "attn_v": (layers, kv, hidden),
        "attn_output": (layers, hidden, hidden),
        "ffn_norm": (layers, hidden),
        "ffn_gate": (layers, inner, hidden),
        "ffn_down": (layers, hidden, inner),
        "ffn_up": (layers, inner, hidden),
        "output_norm": (hidden,),
        "cosines": (shape.context, head_dim // 2),
        "sines": (shape.context, head_dim // 2),
    }
    ends = list(accumulate((prod(size) for size in parts.values()), initial=0))
    if _HEADER_BYTES + 4 * ends[-1] > len(raw):
        raise BadFileError(f"{data} is cut short: {len(raw)} bytes")
    numbers = np.frombuffer(raw, "<f4", ends[-1], _HEADER_BYTES)
    found: dict[str, Floats] = {}
    for (part, size), (start, end) in zip(parts.items(), pairwise(ends), strict=True):
        values = numbers[start:end].reshape(size)
        if part in ("token_embd", "output_norm"):
            found[f"{part}.weight"] = values
        elif part not in _COMPUTED:
            found |= {f"blk.{layer}.{part}.weight": values[layer] for layer in range(layers)}
    return found, _HEADER_BYTES + 4 * ends[-1]


def _tokens(data: Path, raw: bytes, at: int, count: int) -> tuple[list[str], Floats]:
    """Read the tokens: a length that bounds theirs, then score, length and bytes of each."""
    pieces, scores = [], np.zeros(count, np.float32)
    at += 4
    try:
        for token in range(count):
            scores[token], length = struct.unpack_from("<fi", raw, at)
            text = raw[at + 8 : at + 8 + length]
            at += 8 + length
            pieces.append(_piece(token, text))
    except (struct.error, UnicodeDecodeError):
        raise BadFileError(f"{data} has tokens that cannot be read") from None
    return pieces, scores


def _piece(token: int, text: bytes) -> str:
    if token < _FIRST_BYTE:
        return ("<unk>", "<s>", "</s>")[token]
    if token < _FIRST_BYTE + 256:
        return f"<0x{token - _FIRST_BYTE:02X}>"
    return text.decode().replace(" ", "▁")


def _kind(token: int) -> int:
    if token < _FIRST_BYTE:
        return _UNKNOWN if token == 0 else _CONTROL
    return _BYTE if token < _FIRST_BYTE + 256 else _NORMAL
