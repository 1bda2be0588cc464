from pathlib import Path

import pytest

from banyan.config.errors import ConfigError
from banyan.sources.local import ORACLE, local_model
from banyan.weights.gguf import GGUFSource
from banyan.weights.open import open_weights
from banyan.weights.safetensors import SafetensorsSource
from tests.unit.sources.files import make_folder, make_gguf


def test_the_kind_of_a_model_decides(tmp_path: Path) -> None:
    gguf, folder = local_model(make_gguf(tmp_path / "a.gguf")), local_model(make_folder(tmp_path / "b"))
    assert isinstance(open_weights(gguf), GGUFSource)
    assert isinstance(open_weights(gguf, "gguf"), GGUFSource)
    assert isinstance(open_weights(folder, "safetensors"), SafetensorsSource)
    with pytest.raises(ConfigError, match="cannot be loaded as safetensors; use --load-format auto"):
        open_weights(gguf, "safetensors")
    with pytest.raises(ConfigError, match="the model oracle has no weights"):
        open_weights(ORACLE)
