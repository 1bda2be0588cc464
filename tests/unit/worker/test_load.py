"""Tests of banyan.worker.load."""

from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import save_file

from banyan.config.host import probe
from banyan.config.resolve import Settled, resolve
from banyan.config.spec import EngineConfig, MemoryConfig, ModelConfig
from banyan.sources.card import model_card
from banyan.sources.local import ORACLE, local_model
from banyan.worker.load import make_worker
from tests.unit.models.checkpoints import BASE, CONFIGS, make_hf, make_shape


def _settled(folder: Path, **model: str) -> Settled:
    config = EngineConfig(
        model=msgspec.convert({"path": str(folder), **model}, ModelConfig), memory=MemoryConfig(max_total_tokens=64)
    )
    return resolve(config, probe(), model_card(local_model(folder)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_bytes(msgspec.json.encode({**BASE, **CONFIGS["llama"]}))
    save_file(make_hf(make_shape("llama")), tmp_path / "model.safetensors")
    return tmp_path


def test_a_folder_is_loaded(folder: Path) -> None:
    settled = _settled(folder)
    assert (settled.load_format, settled.dtype, settled.depth) == ("safetensors", "float32", 1)
    make_worker(settled, num_pages=4, max_pages_per_slot=4)


def test_a_tensor_that_is_missing_stops_the_launch(folder: Path) -> None:
    tensors = make_hf(make_shape("llama"))
    name, _ = tensors.popitem()
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ValueError, match="parameters without a tensor"):
        make_worker(_settled(folder), num_pages=4, max_pages_per_slot=4)
    assert name


def test_made_up_weights_need_no_file(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    worker = make_worker(_settled(folder, load_format="dummy"), num_pages=4, max_pages_per_slot=4)
    again = make_worker(_settled(folder, load_format="dummy"), num_pages=4, max_pages_per_slot=4)
    weights = [torch.cat([p.flatten() for p in w.runner.model.body.parameters()]) for w in (worker, again)]
    assert torch.equal(*weights)
    assert weights[0].std() > 0


def test_the_oracle_is_no_network() -> None:
    settled = resolve(EngineConfig(), probe(), model_card(ORACLE))
    with pytest.raises(ValueError, match="no network"):
        make_worker(settled, num_pages=4, max_pages_per_slot=4)
