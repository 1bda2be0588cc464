"""A cache of its own for each test that names it."""

from pathlib import Path

import pytest


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have verbs keep models in an empty folder."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("BANYAN_CACHE_DIR", str(folder))
    return folder
