"""Tests of banyan.models.families.gemma. That it computes what it should is tested in tests/equal."""

import pytest

from tests.unit.models.checkpoints import assert_loads_alike


@pytest.mark.parametrize("family", ["gemma2", "gemma3"])
def test_gguf_files_fill_the_model_as_safetensors_do(family: str) -> None:
    assert_loads_alike(family)
