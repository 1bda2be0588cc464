"""Damaged and dishonest model files: each is refused with a sentence, quickly, and without taking memory for it."""

import random
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from banyan.config.errors import UserError
from banyan.sources.card import model_card
from banyan.sources.gguf import read_gguf
from banyan.sources.local import local_model
from banyan.text.tokenizer import TokenizerError, byte_tokenizer, load_tokenizer
from banyan.text.vocab import read_vocab
from banyan.weights.open import open_weights
from tests.unit.sources.files import llama_config, make_folder, make_gguf, make_shards

MAX_BYTES = 32_000_000
Mutation = Callable[[bytes], bytes]
HUGE = (1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)


def use(path: Path) -> None:
    """Do all that is done with a model before it runs."""
    model = local_model(path)
    model_card(model)
    source = open_weights(model)
    for _ in source.read(source.shapes):
        pass
    if model.kind == "gguf":
        read_vocab(path)
    elif (path / "tokenizer.json").exists():
        load_tokenizer(str(path))


def refused(path: Path) -> str:
    """Check that a model is refused, and how."""
    tracemalloc.start()
    try:
        with pytest.raises((UserError, TokenizerError)) as caught:
            use(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    said = str(caught.value)
    assert "\n" not in said
    assert 10 < len(said) < 600
    assert peak < MAX_BYTES
    return said


# GGUF: fixed places in the file that make_gguf writes.
_FIRST_KEY = 24  # after magic, version and the two counts


def put(at: int, raw: bytes) -> Mutation:
    return lambda data: data[:at] + raw + data[at + len(raw) :]


def after(marker: bytes, skip: int, raw: bytes) -> Mutation:
    """Overwrite what lies behind a name."""

    def mutate(data: bytes) -> bytes:
        at = data.index(marker) + len(marker) + skip
        return data[:at] + raw + data[at + len(raw) :]

    return mutate


def u32(number: int) -> bytes:
    return struct.pack("<I", number & 0xFFFFFFFF)


def u64(number: int) -> bytes:
    return struct.pack("<Q", number)


def gguf_mutations() -> Iterator[tuple[str, Mutation]]:
    yield "empty", lambda data: b""
    yield "magic", put(0, b"GGML")
    yield "swapped", lambda data: data[:4] + data[4:8][::-1] + data[8:]
    for version in (0, 1, 4, 2**32 - 1):
        yield f"version {version}", put(4, u32(version))
    for number in (1000, *HUGE):
        yield f"{number} tensors", put(8, u64(number))
        yield f"{number} entries", put(16, u64(number))
        yield f"key of {number} bytes", put(_FIRST_KEY, u64(number))
        yield f"value of {number} bytes", after(b"general.architecture", 4, u64(number))
        yield f"list of {number} strings", after(b"tokenizer.ggml.tokens", 8, u64(number))
        yield f"list of {number} numbers", after(b"tokenizer.ggml.scores", 8, u64(number))
        yield f"offset {number}", after(b"blk.0.attn_q.weight", 4 + 16 + 4, u64(number))
        yield f"width {number}", after(b"blk.0.attn_q.weight", 4, u64(number))
        yield f"height {number}", after(b"blk.0.attn_q.weight", 12, u64(number))
    for kind in (13, 99, 2**32 - 1):
        yield f"value type {kind}", after(b"llama.block_count", 0, u32(kind))
        yield f"list type {kind}", after(b"tokenizer.ggml.tokens", 4, u32(kind))
    yield "list of lists", after(b"tokenizer.ggml.tokens", 4, u32(9))
    for number in (0, 5, 2**32 - 1):
        yield f"{number} dimensions", after(b"blk.0.attn_q.weight", 0, u32(number))
    for kind in (4, 16, 31, 2**31):
        yield f"tensor type {kind}", after(b"blk.0.attn_q.weight", 20, u32(kind))
    yield "half the numbers", after(b"blk.0.attn_q.weight", 20, u32(1))
    yield "rows cut through blocks", after(b"blk.0.attn_norm.weight", 12, u32(12))
    yield "overlap", after(b"blk.0.attn_q.weight", 24, u64(0))
    yield "odd offset", after(b"blk.0.attn_q.weight", 24, u64(8388 + 1))
    yield "zero width", after(b"blk.0.attn_q.weight", 4, u64(0))
    yield "same name twice", lambda data: data.replace(b"blk.1.attn_q.weight", b"blk.0.attn_q.weight")
    yield "same key twice", lambda data: data.replace(b"tokenizer.ggml.scores", b"tokenizer.ggml.tokens")
    yield "no UTF-8", after(b"general.architecture", 12, b"\xff\xfe")
    yield "unknown architecture", lambda data: data.replace(b"llama", b"lamma")
    yield "no layers", after(b"llama.block_count", 4, u32(0))
    yield "too many layers", after(b"llama.block_count", 4, u32(2**32 - 1))
    yield "no heads", after(b"llama.attention.head_count", 4, u32(0))
    yield "wrong width", after(b"llama.embedding_length", 4, u32(64))
    yield "endless context", after(b"llama.context_length", 4, u32(2**32 - 1))
    yield "missing key", lambda data: data.replace(b"llama.feed_forward_length", b"llama.feed_forward_lengtX")
    yield "no such end", after(b"tokenizer.ggml.eos_token_id", 4, u32(70_000))
    yield "same token twice", lambda data: data.replace(b"<0x01>", b"<0x00>")


@pytest.mark.parametrize(("name", "mutate"), [pytest.param(n, m, id=n) for n, m in gguf_mutations()])
def test_a_bad_gguf_is_refused(tmp_path: Path, name: str, mutate: Mutation) -> None:
    path = make_gguf(tmp_path / "model.gguf")
    before = path.read_bytes()
    path.write_bytes(mutate(before))
    assert path.read_bytes() != before, name
    refused(path)


def test_a_gguf_that_is_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = make_gguf(tmp_path / "model.gguf")
    whole = path.read_bytes()
    use(path)
    for share in range(40):
        path.write_bytes(whole[: len(whole) * share // 40])
        refused(path)


def test_flipped_bits_in_a_gguf_header_never_do_harm(tmp_path: Path) -> None:
    """Some bits do not matter, or make another model. Whatever happens, it is a sentence or a header."""
    path = make_gguf(tmp_path / "model.gguf")
    whole = path.read_bytes()
    header = read_gguf(path).tensors[0].offset
    rng = random.Random(0)
    for _ in range(150):
        at = rng.randrange(header)
        path.write_bytes(put(at, bytes([whole[at] ^ 1 << rng.randrange(8)]))(whole))
        try:
            model_card(local_model(path))
        except UserError as error:
            assert "\n" not in str(error)


def header_of(data: bytes) -> dict[str, Any]:
    length = int.from_bytes(data[:8], "little")
    found: dict[str, Any] = msgspec.json.decode(data[8 : 8 + length])
    return found


def with_header(change: Callable[[dict[str, Any]], object]) -> Mutation:
    """Rewrite the header with a change; the numbers behind it stay."""

    def mutate(data: bytes) -> bytes:
        length = int.from_bytes(data[:8], "little")
        header = header_of(data)
        change(header)
        return with_text(msgspec.json.encode(header))(data[:8] + data[8 : 8 + length] + data[8 + length :])

    return mutate


def with_text(text: bytes) -> Mutation:
    return lambda data: u64(len(text)) + text + data[8 + int.from_bytes(data[:8], "little") :]


def set_a(**fields: object) -> Mutation:
    return with_header(lambda header: header["a.weight"].update(fields))


def shorter(cut: int) -> Mutation:
    return lambda data: data[:-cut]


_ENTRY = b'{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}'


def safetensors_mutations() -> Iterator[tuple[str, Mutation]]:
    yield "empty", lambda data: b""
    yield "seven bytes", lambda data: data[:7]
    for length in (0, 7, 100_000_001, *HUGE):
        yield f"header of {length}", put(0, u64(length))
    yield "no JSON", with_text(b"hello")
    yield "a list", with_text(b"[1]")
    yield "torn JSON", with_text(b'{"a": {')
    yield "no UTF-8", with_text(b'{"\xff": 1}')
    yield "deep lists", with_text(b'{"a":' + b"[" * 200_000)
    yield "deep groups", with_text(b'{"a":' * 200_000)
    yield "many entries", with_text(b"{" + b",".join(b'"%d":%s' % (n, _ENTRY) for n in range(20_000)) + b"}")
    yield "long number", with_text(b'{"a":{"dtype":"F32","shape":[%s],"data_offsets":[0,24]}}' % (b"9" * 100_000))
    yield "name twice", with_text(b'{"a":%s,"a":%s}' % (_ENTRY, _ENTRY))
    for dtype in ("F33", "", 4, None, "os.system"):
        yield f"dtype {dtype}", set_a(dtype=dtype)
    shapes: tuple[object, ...] = ([2, 4], [-2, -3], [6, 2**62], [2**64, 2**64], [0], [1.5], ["2"], "6", None, [1] * 100)
    for shape in shapes:
        yield f"shape {str(shape)[:20]}", set_a(shape=shape)
    places: tuple[object, ...] = ([0, 23], [1, 25], [24, 0], [-24, 0], [0, 2**63], [0], [0, 24, 24], "0", [0, 2**70])
    for place in places:
        yield f"offsets {str(place)[:20]}", set_a(data_offsets=place)
    yield "overlap", with_header(lambda header: header["b"].update(data_offsets=[16, 24]))
    yield "gap", with_header(lambda header: header["b"].update(data_offsets=[32, 40]))
    yield "another field", set_a(pickle="yes")
    yield "missing field", with_header(lambda header: header["a.weight"].pop("shape"))
    yield "no group", with_header(lambda header: header.update(c=5))
    yield "odd notes", with_header(lambda header: header.update(__metadata__={"a": 1}))
    yield "a tail", lambda data: data + b"x"
    for cut in (1, 8, 24):
        yield f"cut by {cut}", shorter(cut)


@pytest.mark.parametrize(("name", "mutate"), [pytest.param(n, m, id=n) for n, m in safetensors_mutations()])
def test_a_bad_safetensors_is_refused(tmp_path: Path, name: str, mutate: Mutation) -> None:
    folder = make_folder(tmp_path)
    use(folder)
    path = folder / "model.safetensors"
    before = path.read_bytes()
    path.write_bytes(mutate(before))
    assert path.read_bytes() != before, name
    assert "safetensors" in refused(folder)


def config_mutations() -> Iterator[tuple[str, bytes]]:
    yield "empty", b""
    yield "a list", b"[]"
    yield "torn", b'{"hidden_size": '
    yield "no UTF-8", b'{"hidden_size": "\xff"}'
    yield "deep", b'{"a":' * 100_000
    lies: tuple[dict[str, object], ...] = (
        {"architectures": ["EvilForCausalLM"]},
        {"architectures": "LlamaForCausalLM"},
        {"architectures": [5]},
        {"hidden_size": None},
        {"hidden_size": "32"},
        {"num_attention_heads": 2.5},
        {"num_hidden_layers": True},
        {"hidden_act": "os.system"},
        {"dtype": "complex64"},
        {"rope_scaling": {"rope_type": "magic"}},
        {"rope_scaling": "yes"},
        {"rope_scaling": {"rope_type": "llama3", "factor": 8}},
        {"vocab_size": "all"},
        {"eos_token_id": "end"},
        {"rms_norm_eps": "tiny"},
        {"num_attention_heads": 0},
        {"num_hidden_layers": 10**12},
        {"architectures": ["MistralForCausalLM"], "num_hidden_layers": 10**12},
        {"max_position_embeddings": 0},
        {"rope_theta": 0},
    )
    for lie in lies:
        yield str(lie), msgspec.json.encode(llama_config() | lie)


@pytest.mark.parametrize(("name", "content"), [pytest.param(n, c, id=n) for n, c in config_mutations()])
def test_a_bad_config_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    del name
    folder = make_folder(tmp_path)
    (folder / "config.json").write_bytes(content)
    refused(folder)


def test_what_a_config_wants_to_run_is_ignored(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    (folder / "modeling_evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    evil = {"auto_map": {"AutoModelForCausalLM": "modeling_evil.Evil"}, "trust_remote_code": True}
    (folder / "config.json").write_bytes(msgspec.json.encode(llama_config() | evil))
    use(folder)
    assert not (tmp_path / "ran").exists()


def index_mutations() -> Iterator[tuple[str, Callable[[Path], object]]]:
    def index(content: object) -> Callable[[Path], object]:
        return lambda folder: (folder / "model.safetensors.index.json").write_bytes(msgspec.json.encode(content))

    yield "missing shard", lambda folder: (folder / "two.safetensors").unlink()
    yield "torn shard", lambda folder: (folder / "two.safetensors").write_bytes(b"x")
    yield "no map", index({})
    yield "a list", index([])
    yield "unknown tensor", index({"weight_map": {"a": "one.safetensors", "c": "two.safetensors"}})
    yield "forgotten tensor", index({"weight_map": {"a": "one.safetensors"}, "x": "two.safetensors"})
    yield "wrong file", index({"weight_map": {"a": "two.safetensors", "b": "one.safetensors"}})
    yield "a path", index({"weight_map": {"a": "../one.safetensors", "b": "two.safetensors"}})
    yield "a pickle", index({"weight_map": {"a": "one.bin", "b": "two.safetensors"}})


@pytest.mark.parametrize(("name", "change"), [pytest.param(n, c, id=n) for n, c in index_mutations()])
def test_bad_shards_are_refused(tmp_path: Path, name: str, change: Callable[[Path], object]) -> None:
    folder = make_shards(tmp_path)
    use(folder)
    if name == "forgotten tensor":  # of a file that the index does name
        (folder / "one.safetensors").write_bytes((folder / "two.safetensors").read_bytes())
    change(folder)
    refused(folder)


def tokenizer_mutations() -> Iterator[tuple[str, Callable[[dict[str, Any]], object]]]:
    yield "no model", lambda spec: spec.pop("model")
    yield "unknown model", lambda spec: spec["model"].update(type="Evil")
    yield "unknown decoder", lambda spec: spec.update(decoder={"type": "Evil"})
    yield "unknown splitter", lambda spec: spec.update(pre_tokenizer={"type": "Evil"})
    yield "ids as text", lambda spec: spec["model"].update(vocab={"a": "0"})
    yield "negative ids", lambda spec: spec["model"].update(vocab={"a": -1})
    yield "merges of nothing", lambda spec: spec["model"].update(merges=[["x y", "z"]])
    yield "merges as text", lambda spec: spec["model"].update(merges="a b")
    yield (
        "bad pattern",
        lambda spec: spec.update(
            pre_tokenizer={"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": False}
        ),
    )
    yield "added tokens as text", lambda spec: spec.update(added_tokens="none")


@pytest.mark.parametrize(("name", "change"), [pytest.param(n, c, id=n) for n, c in tokenizer_mutations()])
def test_a_bad_tokenizer_is_refused(tmp_path: Path, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    del name
    folder = make_folder(tmp_path)
    spec: dict[str, Any] = msgspec.json.decode(byte_tokenizer()._inner.to_str())
    (folder / "tokenizer.json").write_bytes(msgspec.json.encode(spec))
    use(folder)
    change(spec)
    (folder / "tokenizer.json").write_bytes(msgspec.json.encode(spec))
    refused(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"[" * 100_000, b"\xff", b'{"model":' * 100_000])
def test_a_tokenizer_that_is_no_json_is_refused(tmp_path: Path, content: bytes) -> None:
    folder = make_folder(tmp_path)
    (folder / "tokenizer.json").write_bytes(content)
    refused(folder)
