"""make_worker: a settled config to a TpModelWorker with its weights loaded."""

import logging
import time
from pathlib import Path

import torch

from banyan.config.resolve import Settled
from banyan.models.load import load_state
from banyan.models.registry import build_model
from banyan.sources.local import local_model
from banyan.weights.dummy import fill_dummy
from banyan.weights.open import open_weights
from banyan.worker.runner import ModelRunner
from banyan.worker.worker import TpModelWorker

_LOG = logging.getLogger(__name__)
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def make_worker(settled: Settled, *, num_pages: int, max_pages_per_slot: int) -> TpModelWorker:
    """Build the network, fill it, and give it its KV memory."""
    shape = settled.card.architecture
    if shape is None:
        raise ValueError(f"{settled.card.name} is no network")
    device, dtype = torch.device("cpu"), _DTYPES[settled.dtype]
    began = time.monotonic()
    model = build_model(shape, context_length=settled.context_length, device=device, dtype=dtype)
    if settled.load_format == "dummy":
        fill_dummy({path: slot.tensor for path, slot in model.slots().items()}, seed=settled.config.schedule.seed)
    else:
        local = local_model(Path(settled.card.source))
        load_state(model, open_weights(local, dtype=dtype), "gguf" if local.kind == "gguf" else "hf")
    count = sum(slot.tensor.numel() for slot in model.slots().values())
    _LOG.info("%s: %.0f M parameters in %.1f s", settled.served_name, count / 1e6, time.monotonic() - began)
    runner = ModelRunner(
        model, num_pages=num_pages, page_size=settled.page_size, backend=settled.attention, device=device
    )
    return TpModelWorker(
        runner,
        num_slots=settled.max_running_requests,
        max_pages_per_slot=max_pages_per_slot,
        page_size=settled.page_size,
        eos_ids=settled.eos_ids,
    )
