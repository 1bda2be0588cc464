"""A small random network on the real worker, and the same network run plainly, one request at a time."""

import itertools

import numpy as np
import torch

from banyan.forward import build_batch
from banyan.memory.ledger.cache import make_cache
from banyan.models.heads import LMHead
from banyan.models.load import load_state
from banyan.models.model import Model
from banyan.sched.limits import Limits
from banyan.sched.loop import EventLoop, Turn
from banyan.sched.scheduler import Scheduler
from banyan.weights.source import MemorySource
from banyan.wire.control import ToScheduler
from banyan.worker.runner import ModelRunner
from banyan.worker.worker import TpModelWorker
from tests.fakes.collector import Collector
from tests.unit.models.checkpoints import make_hf, make_model, make_shape

PAGE, PAGES, SLOTS, CONTEXT = 4, 64, 6, 64
CPU = torch.device("cpu")


def network(family: str, **differences: object) -> Model:
    """Make a network with random weights."""
    shape = make_shape(family, **differences)
    model = make_model(shape)
    load_state(model, MemorySource(make_hf(shape)))
    return model


def worker(model: Model, eos_ids: tuple[int, ...] = ()) -> TpModelWorker:
    """Put a network on a worker."""
    runner = ModelRunner(model, num_pages=PAGES, page_size=PAGE, backend="auto", device=CPU)
    return TpModelWorker(runner, num_slots=SLOTS, max_pages_per_slot=CONTEXT // PAGE, page_size=PAGE, eos_ids=eos_ids)


def serve(model: Model, messages: list[ToScheduler], *, depth: int = 1, token_budget: int = 8) -> Collector:
    """Run requests, two arriving each turn, through the scheduler and the worker."""
    limits = Limits(num_slots=SLOTS, context_length=CONTEXT, token_budget=token_budget, depth=depth, vocab_size=20)
    cache = make_cache("radix", PAGES, PAGE, SLOTS, CONTEXT // PAGE)
    collector = Collector()
    waiting = list(messages)
    turns = itertools.count()

    def inbox() -> Turn:
        arrived = [waiting.pop(0) for _ in range(min(2, len(waiting)))]
        return Turn(float(next(turns)), arrived)

    loop = EventLoop(inbox, Scheduler(limits, cache), worker(model), collector.take, check_every=1)
    while loop.turn() or waiting:
        pass
    return collector


def plain_hidden(model: Model, tokens: list[int]) -> torch.Tensor:
    """Return the last hidden state of every position of one sequence, computed at once and alone."""
    runner = ModelRunner(model, num_pages=CONTEXT // PAGE, page_size=PAGE, backend="reference", device=CPU)
    table = torch.zeros((2, CONTEXT // PAGE), dtype=torch.int32)
    table[1] = torch.arange(1, CONTEXT // PAGE + 1)
    batch = build_batch(
        slots=np.array([1], np.int32),
        starts=np.array([0], np.int32),
        lengths=np.array([len(tokens)], np.int32),
        samples=np.array([True]),
        input_ids=torch.tensor(tokens),
        page_table=table,
        page_size=PAGE,
    )
    return runner.forward(batch)


def plain_logits(model: Model, tokens: list[int]) -> torch.Tensor:
    """Return the logits of every position of one sequence, computed at once and alone."""
    assert isinstance(model.head, LMHead)
    with torch.inference_mode():
        return model.head.logits(plain_hidden(model, tokens))


def plain_greedy(model: Model, prompt: list[int], max_new_tokens: int) -> list[int]:
    """Generate by recomputing everything for every token."""
    tokens = list(prompt)
    for _ in range(max_new_tokens):
        tokens.append(int(plain_logits(model, tokens)[-1].argmax()))
    return tokens[len(prompt) :]
