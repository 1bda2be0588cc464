from pathlib import Path

import numpy as np
from gguf import GGUFReader

from banyan.sources.gguf_write import write_gguf


def test_the_reference_reads_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    tensors = {"odd": np.arange(5, dtype=np.float32), "rest": np.ones((2, 3), np.float32)}
    write_gguf(path, {"a": 7, "b": 0.5, "c": True, "d": "é", "e": ["x", ""], "f": np.array([1, -2])}, tensors)
    read = GGUFReader(path)
    said = {key: field.contents() for key, field in read.fields.items() if not key.startswith("GGUF.")}
    assert said == {"a": 7, "b": 0.5, "c": True, "d": "é", "e": ["x", ""], "f": [1, -2]}
    assert [(tensor.name, tensor.data.tolist()) for tensor in read.tensors] == [
        (name, array.tolist()) for name, array in tensors.items()
    ]
