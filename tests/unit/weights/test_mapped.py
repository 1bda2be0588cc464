from pathlib import Path

import pytest
import torch

from banyan.sources.errors import BadFileError
from banyan.weights.mapped import MappedFile


def test_ranges_are_shown_without_copies_unless_they_lie_oddly(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(torch.arange(4, dtype=torch.float32).numpy().tobytes() + b"\x01")
    file = MappedFile(path)
    even, again = file.view(4, 8, torch.float32), file.view(4, 8, torch.float32)
    assert even.tolist() == [1, 2]
    assert even.data_ptr() == again.data_ptr()
    assert file.view(3, 4, torch.float32).shape == (1,)  # a copy, for a float cannot begin there
    assert file.view(16, 1).tolist() == [1]
    assert file.view(17, 0).shape == (0,)


def test_the_file_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"abcd")
    MappedFile(path).view(0, 4).zero_()
    assert path.read_bytes() == b"abcd"


def test_a_file_that_is_empty_or_missing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for name in ("empty", "none"):
        with pytest.raises(BadFileError, match="cannot be mapped"):
            MappedFile(tmp_path / name)
