"""Record the trace that test_replay.py replays: `python -m tests.replay.make` after a wanted change of decisions."""

import io
import random
from pathlib import Path

import numpy as np

from banyan.plan import Step
from banyan.sched.record import Recorder, Setup
from banyan.wire.control import (
    ContinueGenerationReqInput,
    FlushCacheReqInput,
    PauseGenerationReqInput,
    ToScheduler,
)
from banyan.wire.request import AbortReq, TokenizedEmbeddingReqInput
from banyan.worker.fake import Faults
from banyan.worker.oracle import Oracle
from tests.fakes.server import Server, Shape
from tests.fakes.workload import Mix, workload

TRACE = Path(__file__).parent / "trace.bin"
SHAPE = Shape(depth=2, num_pages=40, num_slots=6, token_budget=24, policy="lpm", context_length=128)


def setup_of(shape: Shape) -> Setup:
    """Say how to build a server's scheduler again."""
    max_pages = -(-shape.context_length // shape.page_size)
    return Setup(shape.limits(), shape.cache, shape.num_pages, shape.page_size, max_pages)


def script(seed: int) -> list[ToScheduler]:
    """Mix requests of all kinds with aborts and control messages."""
    rng = random.Random(seed)
    messages: list[ToScheduler] = list(workload(seed, Mix(requests=40, grammar=0.25, logprobs=0.1)))
    prompt = np.arange(40, 60, dtype=np.int32)
    messages.insert(5, TokenizedEmbeddingReqInput(uid=900, rid="e", tokens=prompt.tobytes()))
    abort = AbortReq(uids=np.array([3, 9], np.int64).tobytes(), below=np.array([1, 1], np.int32).tobytes())
    messages.insert(12, abort)
    messages.insert(15, PauseGenerationReqInput(front=0, call=1, retract=True))
    messages.insert(16, ContinueGenerationReqInput(front=0, call=2))
    messages.insert(20, FlushCacheReqInput(front=0, call=3))
    messages.insert(rng.randrange(len(messages)), FlushCacheReqInput(front=0, call=4))
    return messages


def record(shape: Shape, seed: int) -> bytes:
    """Run a server on the script, with one step that fails and one row that does, and return its record."""
    rng = random.Random(seed)
    file = io.BytesIO()
    server = Server(shape, Oracle(eos_chance=1 / 24), observers=(Recorder(file, setup_of(shape)),))

    def fail(step: Step) -> str | None:
        return "planted" if step.number == 30 else None

    server.executor.faults = Faults(wait=fail, rows=lambda step: {0: "planted"} if step.number == 50 else {})
    messages = script(seed)
    while messages or server.loop.turn():
        while messages and rng.random() < 0.5:
            server.inbox.append(messages.pop(0))
        server.loop.turn()
    if leaks := server.leaks():
        raise AssertionError(leaks)
    return file.getvalue()


if __name__ == "__main__":
    TRACE.write_bytes(record(SHAPE, seed=1))
