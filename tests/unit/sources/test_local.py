from pathlib import Path

import pytest

from banyan.sources.errors import SourceError
from banyan.sources.local import LocalModel, local_model
from tests.unit.sources.files import make_folder, make_gguf


def test_recognises_both_kinds(tmp_path: Path) -> None:
    folder, file = make_folder(tmp_path / "tiny"), make_gguf(tmp_path / "tiny-Q8.gguf")
    assert local_model(folder) == LocalModel(folder, "hf", "tiny")
    assert local_model(file, licence="MIT") == LocalModel(file, "gguf", "tiny-Q8", "MIT")


def test_refuses_what_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(b"")
    with pytest.raises(SourceError, match=r"without a config\.json"):
        local_model(tmp_path)
    with pytest.raises(SourceError, match="there is no model at"):
        local_model(tmp_path / "none")
    with pytest.raises(SourceError, match=r"neither a \.gguf file nor"):
        local_model(tmp_path / "weights.bin")
