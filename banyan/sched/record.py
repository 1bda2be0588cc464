"""Recorder and replay: write down all that a scheduler depends on; run it again and compare every step.

A scheduler is pure: the same messages at the same times and the same results give the same steps. So a record of those
is enough to repeat a bug, and a refactoring that changes no step hash has changed no decision. Only a plain server
(role Unified) can be replayed: what comes over a KV link is not recorded.
"""

import struct
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec
import numpy as np

from banyan.memory.ledger.cache import make_cache
from banyan.memory.ledger.evict import EvictionPolicy
from banyan.plan import U32, Forward, Grammar, Pending, Step, StepResult
from banyan.sched.limits import Limits
from banyan.sched.loop import EventLoop, Turn
from banyan.sched.scheduler import Scheduler
from banyan.wire.control import ControlReply, ControlReq, ToDetokenizer, ToScheduler
from banyan.wire.request import GrammarSpec

_LENGTH = struct.Struct("<I")


class Entry(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """One entry of a record."""


class Setup(Entry, frozen=True):
    """The first entry: how to build the same scheduler."""

    limits: Limits
    cache: Literal["radix", "chunk"]
    num_pages: int
    page_size: int
    max_pages_per_slot: int
    eviction_policy: EvictionPolicy = "lru"


class Turned(Entry, frozen=True):
    """A turn began, at this time, with these messages."""

    now: float
    messages: list[ToScheduler]


class Launched(Entry, frozen=True):
    """A step was handed to the executor."""

    number: int
    hash: bytes


class Committed(Entry, frozen=True):
    """A step came back with these tokens."""

    number: int
    tokens: bytes
    failed: tuple[tuple[int, str], ...]


class Failed(Entry, frozen=True):
    """A step raised."""

    number: int
    error: str


AnyEntry = Setup | Turned | Launched | Committed | Failed


class ReplayReport(msgspec.Struct, frozen=True):
    """What a replay found. It stops at the first step that differs: what follows means nothing."""

    turns: int
    steps: int
    mismatches: tuple[str, ...]


def step_hash(step: Step) -> bytes:
    """Digest everything that a step says, in eight bytes."""
    digest = blake2b(digest_size=8)
    columns = (
        step.extend_slots,
        step.extend_starts,
        step.extend_lengths,
        step.extend_tokens,
        step.extend_samples,
        step.decode_slots,
        step.decode_positions,
        step.page_slots,
        step.page_indices,
        step.page_ids,
        step.released,
        step.masked_rows,
    )
    flags = (step.number, step.needs_history, step.steady, len(step.admissions), len(step.transfers))
    digest.update(msgspec.msgpack.encode((flags, [len(column) for column in columns])))
    for column in columns:
        digest.update(np.ascontiguousarray(column).data)
    for a in step.admissions:
        plain = (a.slot, a.uid, a.epoch, a.sampling, a.seed, a.prompt_len, a.logprobs, a.hidden_states, a.lora)
        digest.update(msgspec.msgpack.encode((plain, a.history.tobytes())))
    for t in step.transfers:
        plain_transfer = (t.id, t.source, t.target, t.source_pages.tobytes(), t.target_pages.tobytes())
        digest.update(msgspec.msgpack.encode(plain_transfer))
    return digest.digest()


class Recorder:
    """An observer that writes what it sees to a file. Whoever opened the file flushes and closes it."""

    def __init__(self, file: BinaryIO, setup: Setup) -> None:
        self._file = file
        self._encoder = msgspec.msgpack.Encoder()
        self._write(setup)

    def turn(self, turn: Turn) -> None:
        """Write down what came from outside."""
        self._write(Turned(turn.now, turn.messages))

    def launched(self, step: Step) -> None:
        """Write down what was decided."""
        self._write(Launched(step.number, step_hash(step)))

    def committed(self, step: Step, result: StepResult) -> None:
        """Write down what the device answered."""
        self._write(Committed(step.number, result.tokens.tobytes(), result.failed))

    def failed(self, step: Step, error: str) -> None:
        """Write down that it did not answer."""
        self._write(Failed(step.number, error))

    def _write(self, entry: AnyEntry) -> None:
        data = self._encoder.encode(entry)
        self._file.write(_LENGTH.pack(len(data)) + data)


def read_entries(data: bytes) -> Iterator[AnyEntry]:
    """Read the entries of a record. One whose end is missing is left out: its writer died."""
    decoder = msgspec.msgpack.Decoder(AnyEntry)
    view, at = memoryview(data), 0
    while at + _LENGTH.size <= len(view):
        end = at + _LENGTH.size + _LENGTH.unpack_from(view, at)[0]
        if end > len(view):
            return
        yield decoder.decode(view[at + _LENGTH.size : end])
        at = end


class _Stop(BaseException):
    """Ends a replay from inside the loop, which survives every ordinary exception."""


class _Script:
    """What happened in a record, by turn and by step."""

    def __init__(self, entries: Iterator[AnyEntry]) -> None:
        self.turns: list[Turned] = []
        self.hashes: dict[int, bytes] = {}
        self.launched_in: dict[int, int] = {}  # step -> turn
        self.results: dict[int, Committed] = {}
        self.failures: dict[int, str] = {}
        self.failed_in: dict[int, int] = {}
        for entry in entries:
            self._add(entry)

    def _add(self, entry: AnyEntry) -> None:
        match entry:
            case Turned():
                self.turns.append(entry)
            case Launched():
                self.hashes[entry.number] = entry.hash
                self.launched_in[entry.number] = len(self.turns)
            case Committed():
                self.results[entry.number] = entry
            case Failed():
                self.failures[entry.number] = entry.error
                self.failed_in[entry.number] = len(self.turns)
            case Setup():
                raise ValueError("a record holds one Setup, at its beginning")

    def fails_at_launch(self, number: int) -> bool:
        """Tell whether a step failed in the turn that launched it: with nothing else in flight, or at its launch."""
        return number in self.failures and self.failed_in[number] == self.launched_in[number]


class _ScriptedStep:
    """Forward and Pending of a step whose outcome is known."""

    def __init__(self, script: _Script, number: int) -> None:
        self._script = script
        self._number = number

    def ready(self) -> bool:
        return True

    def wait(self) -> StepResult:
        if self._number in self._script.failures:
            raise RuntimeError(self._script.failures[self._number])
        if self._number not in self._script.results:
            raise _Stop  # the recorded process died before this came
        result = self._script.results[self._number]
        return StepResult(np.frombuffer(result.tokens, np.int32), failed=result.failed)


class _ScriptedExecutor:
    """An Executor that gives what the record says."""

    def __init__(self, script: _Script) -> None:
        self._script = script

    def forward(self, step: Step) -> Forward:
        if self._script.fails_at_launch(step.number):
            raise RuntimeError(self._script.failures[step.number])
        return _ScriptedStep(self._script, step.number)

    def sample(self, forward: Forward, masks: U32 | None) -> Pending:
        del masks
        if not isinstance(forward, _ScriptedStep):
            raise TypeError("this forward pass was launched by another executor")
        return forward

    def recover(self) -> None:
        pass

    def control(self, request: ControlReq) -> ControlReply | None:  # noqa: ARG002
        return None


class _Comparer:
    """An observer that holds each step against the record."""

    def __init__(self, script: _Script) -> None:
        self._script = script
        self.mismatches: list[str] = []
        self.turns = 0
        self.steps = 0

    def turn(self, turn: Turn) -> None:
        del turn
        self.turns += 1

    def launched(self, step: Step) -> None:
        recorded = self._script.hashes.get(step.number)
        turn = self._script.launched_in.get(step.number)
        if recorded is None and self.turns == len(self._script.turns):
            raise _Stop  # the recorded process died in this turn, before it wrote this
        if recorded is None:
            self.differ(f"turn {self.turns}: step {step.number} was not recorded")
        if turn != self.turns:
            self.differ(f"turn {self.turns}: step {step.number} was recorded in turn {turn}")
        if recorded != step_hash(step):
            self.differ(f"turn {self.turns}: step {step.number} differs")
        self.steps += 1

    def committed(self, step: Step, result: StepResult) -> None:
        pass

    def failed(self, step: Step, error: str) -> None:
        pass

    def differ(self, mismatch: str) -> None:
        """Note the first difference and end the replay."""
        self.mismatches.append(mismatch)
        raise _Stop


def replay_bytes(data: bytes, grammars: Callable[[GrammarSpec], Grammar] | None = None) -> ReplayReport:
    """Run a recorded scheduler again. `grammars` must be the factory that the recorded one had."""
    entries = read_entries(data)
    setup = next(entries, None)
    if not isinstance(setup, Setup):
        raise TypeError("this is not a record: it does not begin with its Setup")
    script = _Script(entries)
    cache = make_cache(
        setup.cache,
        setup.num_pages,
        setup.page_size,
        setup.limits.num_slots,
        setup.max_pages_per_slot,
        setup.eviction_policy,
    )
    comparer = _Comparer(script)
    turns = iter(script.turns)
    loop = EventLoop(
        lambda: _next_turn(turns),
        Scheduler(setup.limits, cache, grammars),
        _ScriptedExecutor(script),
        _ignore,
        (comparer,),
    )
    try:
        for _ in script.turns:
            loop.turn()
        if comparer.steps < len(script.hashes):
            comparer.differ(f"{len(script.hashes)} steps were recorded, {comparer.steps} came")
    except _Stop:
        pass
    return ReplayReport(comparer.turns, comparer.steps, tuple(comparer.mismatches))


def replay(path: Path, grammars: Callable[[GrammarSpec], Grammar] | None = None) -> ReplayReport:
    """Replay a record from a file."""
    return replay_bytes(path.read_bytes(), grammars)


def _next_turn(turns: Iterator[Turned]) -> Turn:
    turned = next(turns)
    return Turn(turned.now, turned.messages)


def _ignore(message: ToDetokenizer) -> None:
    """Outputs are not compared: they follow from steps and results."""
