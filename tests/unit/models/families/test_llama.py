"""Tests of banyan.models.families.llama. That it computes what it should is tested in tests/equal."""

import pytest

from tests.unit.models.checkpoints import assert_loads_alike


@pytest.mark.parametrize("family", ["llama", "mistral"])
@pytest.mark.parametrize("bias", [False, True])
def test_gguf_files_fill_the_model_as_safetensors_do(family: str, bias: bool) -> None:
    assert_loads_alike(family, attention_bias=bias, mlp_bias=bias)
