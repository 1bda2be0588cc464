"""Tiny model files and packages, made by the tests that read them."""

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from banyan.config.metadata import Value
from banyan.sources.gguf_write import write_gguf
from banyan.sources.safetensors import write_safetensors

Array = npt.NDArray[Any]

HIDDEN, INNER, VOCAB, LAYERS, HEADS = 32, 64, 262, 2, 4


def llama_tensors(rng: np.random.Generator) -> dict[str, npt.NDArray[np.float32]]:
    """Make the tensors of a llama of two layers, by their names in GGUF."""
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (VOCAB, HIDDEN), "output_norm": (HIDDEN,)}
    for layer in range(LAYERS):
        block = {
            "attn_norm": (HIDDEN,),
            "attn_q": (HIDDEN, HIDDEN),
            "attn_k": (HIDDEN, HIDDEN),
            "attn_v": (HIDDEN, HIDDEN),
            "attn_output": (HIDDEN, HIDDEN),
            "ffn_norm": (HIDDEN,),
            "ffn_gate": (INNER, HIDDEN),
            "ffn_up": (INNER, HIDDEN),
            "ffn_down": (HIDDEN, INNER),
        }
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in block.items()}
    return {f"{name}.weight": rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def llama_metadata() -> dict[str, Value]:
    """Describe that llama, with a vocabulary of pieces: three names, the bytes, and three pieces."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "▁a"]
    return {
        "general.architecture": "llama",
        "llama.block_count": LAYERS,
        "llama.context_length": 128,
        "llama.embedding_length": HIDDEN,
        "llama.feed_forward_length": INNER,
        "llama.attention.head_count": HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.scores": np.linspace(0, -1, VOCAB, dtype=np.float32),
        "tokenizer.ggml.token_type": np.array([2, 3, 3, *[6] * 256, 1, 1, 1], np.int32),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }


def make_gguf(path: Path, metadata: Mapping[str, Value] | None = None) -> Path:
    """Write the llama as a GGUF file."""
    write_gguf(path, llama_metadata() | dict(metadata or {}), llama_tensors(np.random.default_rng(0)))
    return path


def llama_config() -> dict[str, object]:
    """Describe the llama as a config.json does."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "max_position_embeddings": 128,
        "vocab_size": VOCAB,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
        "eos_token_id": 2,
    }


def make_folder(folder: Path, tensors: Mapping[str, Array] | None = None) -> Path:
    """Write a folder with a config.json and one safetensors file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_bytes(msgspec.json.encode(llama_config()))
    content: Mapping[str, Array] = {
        "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.ones(4, np.float16),
    }
    write_safetensors(folder / "model.safetensors", content if tensors is None else tensors)
    return folder


def make_shards(folder: Path) -> Path:
    """Write a folder with two safetensors files and their index."""
    make_folder(folder)
    (folder / "model.safetensors").unlink()
    write_safetensors(folder / "one.safetensors", {"a": np.zeros(2, np.float32)})
    write_safetensors(folder / "two.safetensors", {"b": np.ones(3, np.float32)})
    index = {"metadata": {"total_size": 20}, "weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    (folder / "model.safetensors.index.json").write_bytes(msgspec.json.encode(index))
    return folder


def make_wheel(path: Path, members: Mapping[str, bytes]) -> Path:
    """Write a wheel with these files."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def make_tarball(path: Path, members: Mapping[str, bytes]) -> Path:
    """Write an npm tarball with these files."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path
