"""Tests of banyan.models.families.deepseek. That it computes what it should is tested in tests/equal."""

import pytest

from tests.unit.models.checkpoints import assert_loads_alike


@pytest.mark.parametrize("family", ["deepseek_v2", "deepseek_v3"])
@pytest.mark.parametrize("q_rank", [None, 6])
def test_gguf_files_fill_the_model_as_safetensors_do(family: str, q_rank: int | None) -> None:
    assert_loads_alike(family, q_lora_rank=q_rank)
