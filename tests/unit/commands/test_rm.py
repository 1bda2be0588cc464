"""Tests of banyan.commands.rm."""

from pathlib import Path

import pytest

from banyan.commands import rm
from banyan.config.errors import UserError
from tests.unit.commands.models import put_model


def test_a_model_is_removed_by_its_alias(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = put_model(cache, "smollm2:135m")
    run = rm.prepare(["smollm2"])
    assert path.exists()
    assert run() == 0
    assert not path.exists()
    assert capsys.readouterr().out == "smollm2:135m is removed, 0 MB are free again\n"


def test_what_is_not_there_is_a_mistake_of_the_user(cache: Path) -> None:
    put_model(cache, "pypi:tiny")
    with pytest.raises(UserError, match="did you mean pypi:tiny"):
        rm.prepare(["pypi:tny"])()
