from pathlib import Path

import msgspec
import numpy as np
import pytest

from banyan.sources.card import model_card
from banyan.sources.errors import BadFileError
from banyan.sources.gguf_write import write_gguf
from banyan.sources.local import ORACLE, local_model
from tests.unit.sources.files import llama_metadata, llama_tensors, make_folder, make_gguf


def test_both_forms_of_a_model_have_the_same_architecture(tmp_path: Path) -> None:
    gguf = model_card(local_model(make_gguf(tmp_path / "a.gguf")))
    folder = model_card(local_model(make_folder(tmp_path / "b")))
    assert gguf.architecture is not None and folder.architecture is not None
    eps = folder.architecture.norm_eps  # which GGUF keeps with 32 bits
    assert msgspec.structs.replace(gguf.architecture, norm_eps=eps) == folder.architecture
    assert (gguf.eos_ids, gguf.vocab_size) == (folder.eos_ids, folder.vocab_size)
    assert gguf.tokenizer == str(tmp_path / "a.gguf")


def test_frequencies_that_are_a_tensor_belong_to_the_card(tmp_path: Path) -> None:
    tensors = llama_tensors(np.random.default_rng(0)) | {"rope_freqs.weight": np.array([1, 2, 4, 8], np.float32)}
    write_gguf(tmp_path / "a.gguf", llama_metadata(), tensors)
    card = model_card(local_model(tmp_path / "a.gguf"))
    assert card.architecture is not None and card.architecture.rope is not None
    assert card.architecture.rope.short_factors == (1.0, 2.0, 4.0, 8.0)
    assert card.architecture.rope.long_factors == (1.0, 2.0, 4.0, 8.0)
    assert card.architecture.rope.attention_factor == 1


def test_pooling_is_read_from_its_own_file(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "m")
    (folder / "1_Pooling").mkdir()
    pooling = folder / "1_Pooling" / "config.json"
    pooling.write_text(
        '{"word_embedding_dimension": 8, "pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true}'
    )
    card = model_card(local_model(folder, name="user/m"))
    assert card.name == "user/m"
    assert card.architecture is not None and card.architecture.pooling == "mean"
    for content in ('{"pooling_mode_max_tokens": true}', "{}", "{", "[]"):
        pooling.write_text(content)
        with pytest.raises(BadFileError, match="1_Pooling"):
            model_card(local_model(folder))


def test_the_oracle_has_a_card() -> None:
    assert model_card(ORACLE).name == "oracle"
