"""ModelCard: what the engine must know of a model before it is loaded."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from banyan.config.architecture import Architecture
from banyan.config.errors import ConfigError, suggest
from banyan.config.families import read_architecture
from banyan.config.hf import HfConfig
from banyan.config.sane import check_architecture, check_sizes

DTYPE_BYTES: Final = {"float32": 4, "bfloat16": 2, "float16": 2}


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """A model's needs and limits."""

    name: str
    tokenizer: str  # the one it was made with
    vocab_size: int
    context_length: int  # longest sequence it can attend to
    eos_ids: tuple[int, ...]
    kv_bytes_per_token: int
    is_generation: bool = True
    bos_id: int | None = None
    dtype: str = "float32"  # of its weights
    architecture: Architecture | None = None  # the oracle is no network
    source: str = ""  # file or folder with its weights

    def kv_bytes(self, dtype: str) -> int:
        """Count the bytes that a token leaves in KV memory, with numbers of a type."""
        if self.architecture is None:
            return self.kv_bytes_per_token
        return self.architecture.kv_numbers_per_token() * DTYPE_BYTES[dtype]

    @property
    def needs_whole_prompts(self) -> bool:
        """Tell whether each prompt must be run at once: every token sees, or is averaged with, all others."""
        shape = self.architecture
        return shape is not None and (shape.encoder is not None or (shape.head == "pool" and shape.pooling != "last"))


_KNOWN: Final = {
    card.name: card
    for card in (
        ModelCard(
            name="oracle",
            tokenizer="byte",
            vocab_size=259,  # 256 bytes, end of text, begin of text, padding
            context_length=32_768,
            eos_ids=(256,),
            kv_bytes_per_token=20,  # a hash, a position and the number of a step
        ),
    )
}


def read_card(path: str) -> ModelCard:
    """Return the card of the model at a path: a name that is built in, or a folder with a config.json."""
    if path in _KNOWN:
        return _KNOWN[path]
    config = Path(path) / "config.json"
    if not path or not config.is_file():
        raise ConfigError(
            f"unknown model {path!r}{suggest(path, _KNOWN)}; known models: {', '.join(_KNOWN)}, "
            "and every folder with a config.json"
        )
    card = card_from_hf(_read_json(config), name=config.resolve().parent.name, tokenizer=path)
    generation = config.with_name("generation_config.json")
    if generation.is_file():  # chat models end turns with tokens that only this file names
        more = HfConfig(_read_json(generation)).wholes("eos_token_id")
        card = msgspec.structs.replace(card, eos_ids=tuple(dict.fromkeys((*card.eos_ids, *more))))
    return card


def card_from_hf(config: Mapping[str, object], *, name: str = "", tokenizer: str = "") -> ModelCard:
    """Make a card from a config.json of Hugging Face's form."""
    check_sizes(config)
    hf = HfConfig(config)
    architecture = read_architecture(hf)
    check_architecture(architecture)
    dtype = hf.word("dtype", hf.word("torch_dtype", "float32"))
    if dtype not in DTYPE_BYTES:
        raise ConfigError(f"config.json: dtype {dtype!r} is not known; known are {', '.join(DTYPE_BYTES)}")
    bos_ids = hf.wholes("bos_token_id")
    return ModelCard(
        name=name or architecture.family,
        tokenizer=tokenizer,
        vocab_size=architecture.vocab_size,
        context_length=architecture.num_positions,
        eos_ids=hf.wholes("eos_token_id"),
        kv_bytes_per_token=architecture.kv_numbers_per_token() * DTYPE_BYTES[dtype],
        is_generation=architecture.head == "lm",
        source=tokenizer,
        bos_id=bos_ids[0] if bos_ids else None,
        dtype=dtype,
        architecture=architecture,
    )


def _read_json(path: Path) -> dict[str, object]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, object])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
