"""Each model of the catalogue, fetched if it is not in the cache."""

import sys

import pytest

from banyan.config.env import cache_dir
from banyan.sources.catalogue import CATALOGUE
from banyan.sources.local import LocalModel
from banyan.sources.progress import ProgressBar
from banyan.sources.resolve import resolve_source


@pytest.fixture(scope="session", params=CATALOGUE)
def model(request: pytest.FixtureRequest) -> LocalModel:
    """A model of any kind."""
    return resolve_source(request.param, cache_dir(), ProgressBar(sys.stderr))


@pytest.fixture(scope="session", params=[name for name, entry in CATALOGUE.items() if entry.kind == "gguf"])
def gguf(request: pytest.FixtureRequest) -> LocalModel:
    """A model that is a GGUF file."""
    return resolve_source(request.param, cache_dir(), ProgressBar(sys.stderr))
