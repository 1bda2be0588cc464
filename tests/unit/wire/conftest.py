"""Fixtures of the channel tests."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.wire.ends import CODEC, Pull, Push


@pytest.fixture
def address(tmp_path: Path) -> str:
    tmp_path.chmod(0o700)
    return f"ipc://{tmp_path}/x"


@pytest.fixture
def ends(address: str) -> Iterator[tuple[Pull, Push]]:
    with contextlib.closing(Pull(address, CODEC)) as pull, contextlib.closing(Push(address, CODEC)) as push:
        yield pull, push
