"""Tests of banyan.config.card."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from banyan.config.card import ModelCard, card_from_hf, read_card
from banyan.config.errors import ConfigError


def test_the_oracle_speaks_bytes() -> None:
    card = read_card("oracle")
    assert (card.name, card.vocab_size, card.eos_ids, card.context_length) == ("oracle", 259, (256,), 32_768)
    assert card.tokenizer == "byte"
    assert card.is_generation


@pytest.mark.parametrize("path", ["llama", "", "orakel"])
def test_an_unknown_model_is_refused_with_those_that_are_known(path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_card(path)
    assert repr(path) in str(caught.value)
    assert "known models: oracle" in str(caught.value)


LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 128,
    "max_position_embeddings": 256,
    "eos_token_id": 5,
    "bos_token_id": 1,
    "torch_dtype": "bfloat16",
}


def test_a_card_is_made_of_a_config() -> None:
    card = card_from_hf(LLAMA)
    assert (card.name, card.vocab_size, card.context_length, card.is_generation) == ("llama", 128, 256, True)
    assert (card.eos_ids, card.bos_id, card.dtype) == ((5,), 1, "bfloat16")
    assert card.kv_bytes_per_token == 3 * 2 * (16 + 16) * 2
    assert card.architecture is not None
    assert msgspec.json.decode(msgspec.json.encode(card), type=ModelCard) == card


def test_newer_configs_call_the_type_dtype() -> None:
    assert card_from_hf({**LLAMA, "dtype": "float16"}).dtype == "float16"
    with pytest.raises(ConfigError, match="dtype 'int8' is not known; known are float32, bfloat16, float16"):
        card_from_hf({**LLAMA, "dtype": "int8"})


def test_an_embedding_model_does_not_generate() -> None:
    card = card_from_hf({**LLAMA, "architectures": ["LlamaModel"], "eos_token_id": None, "bos_token_id": None})
    assert (card.is_generation, card.eos_ids, card.bos_id) == (False, (), None)


def test_a_folder_is_read_with_the_ends_that_its_generation_config_adds(tmp_path: Path) -> None:
    folder = tmp_path / "tiny-llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 5]}))
    card = read_card(str(folder))
    assert (card.name, card.tokenizer, card.eos_ids) == ("tiny-llama", str(folder), (5, 7))


def test_a_config_that_is_no_json_is_refused_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"config\.json cannot be read"):
        read_card(str(tmp_path))
