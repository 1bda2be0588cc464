"""The processes of a simulation: schedulers, the detokenizer, fronts. What dies loses its memory, nothing else does."""

from collections.abc import Callable
from dataclasses import dataclass, field

from banyan.plan import Step, StepResult
from banyan.sched.loop import Turn
from banyan.text.detokenizer import DetokenizerManager
from banyan.text.entry import Actions
from banyan.text.journal import Journal
from banyan.text.tokenizer import Tokenizer
from banyan.wire.base import f32, i32
from banyan.wire.control import PeerRestarted, ProbeReply, ToDetokenizer, ToFront, ToScheduler
from banyan.wire.output import BatchEmbeddingOut, BatchStrOut, FinishReason
from banyan.worker.fake import Faults, Latency
from banyan.worker.oracle import Oracle
from tests.fakes.server import Server, Shape
from tests.simulation.network import Network


class Died(BaseException):
    """The process that runs just now is dead."""


class Flight:
    """Who was in the steps in flight: what a supervisor can still read when a scheduler is dead."""

    def __init__(self) -> None:
        self._seats: dict[int, int] = {}
        self._steps: dict[int, tuple[list[int], list[int]]] = {}

    def turn(self, turn: Turn) -> None:
        """A turn begins."""

    def launched(self, step: Step) -> None:
        """Write down who is in a step."""
        for admission in step.admissions:
            self._seats[admission.slot] = admission.uid
        self._steps[step.number] = (step.slots().tolist(), [a.slot for a in step.admissions])

    def committed(self, step: Step, result: StepResult) -> None:
        """Forget it."""
        self._steps.pop(step.number, None)

    def failed(self, step: Step, error: str) -> None:
        """Forget all."""
        self._steps.clear()

    def suspects(self) -> list[int]:
        """Name those who were in flight."""
        return sorted({self._seats[slot] for slots, _ in self._steps.values() for slot in slots})

    def newcomers(self) -> list[int]:
        """Name those who had just entered."""
        return sorted({self._seats[slot] for _, slots in self._steps.values() for slot in slots})


class _Silent:
    enabled = False

    def event(self, name: str, uid: int, now: float) -> None:
        """Record nothing."""


class SchedulerProcess:
    """One life of a scheduler process. `killers` end the process that launches them, `bombs` make their step raise."""

    def __init__(
        self,
        network: Network,
        shape: Shape,
        oracle: Oracle,
        send: Callable[[ToDetokenizer], None],
        *,
        turn_s: float,
        killers: set[int],
        bombs: set[int],
        die: Callable[[], None],
    ) -> None:
        self.flight = Flight()
        # The device takes no time of its own: a turn does, and with more than one step in flight they last.
        self.server = Server(shape, oracle, observers=(self.flight,), latency=Latency(), send=send)
        self._network = network
        self._turn_s = turn_s
        self._killers, self._bombs = killers, bombs
        self._die = die
        self._awake = False
        self.alive = True
        self.server.executor.faults = Faults(forward=self._explode)

    def deliver(self, message: ToScheduler) -> None:
        """Take a message, and wake up."""
        if self.alive:
            self.server.inbox.append(message)
            self._wake()

    def _wake(self) -> None:
        if not self._awake:
            self._awake = True
            self._network.at(self._network.now + self._turn_s, self._turn)

    def _turn(self) -> None:
        self._awake = False
        if not self.alive:
            return
        self.server.clock.sleep_until(self._network.now)
        try:
            if self.server.turn():
                self._wake()
        except Died:
            self._die()

    def _explode(self, step: Step) -> str | None:
        uids = set(self.server.executor.uids(step).tolist())
        if uids & self._killers:
            raise Died
        return "a bomb went off" if uids & self._bombs else None


class DetokenizerProcess:
    """One life of the detokenizer process."""

    def __init__(self, tokenizer: Tokenizer, send: Callable[[int, ToFront], None]) -> None:
        self._core = DetokenizerManager(tokenizer, _Silent())
        self._send = send
        self.alive = True

    def deliver(self, message: ToDetokenizer) -> None:
        """Decode, and pass on."""
        if self.alive:
            for front, out in self._core.process(message):
                self._send(front, out)


@dataclass(slots=True)
class Answer:
    """What one client has been told."""

    tokens: list[int] = field(default_factory=list)
    text: str = ""
    logprobs: list[float] = field(default_factory=list)
    vector: list[float] | None = None
    reason: FinishReason | None = None


class Front:
    """A front process: it never dies, for its clients would know. Keeps what each client has been told."""

    def __init__(self, index: int, num_replicas: int, send: Callable[[ToScheduler], None], network: Network) -> None:
        self.index = index
        self.journal = Journal(index, num_replicas, probe_interval_s=1.0, capacity=10_000)
        self.answers: dict[int, Answer] = {}
        self._send = send
        self._network = network

    def do(self, actions: Actions) -> None:
        """Carry out what the journal asks for."""
        for message in actions.messages:
            self._send(message)
        for failure in actions.failures:
            self._end(failure.uid, failure.reason)

    def deliver(self, message: ToFront) -> None:
        """Take a message from the detokenizer or the supervisor."""
        journal, now = self.journal, self._network.now
        match message:
            case BatchStrOut():
                for row in journal.accept(message, now):
                    answer = self.answers[row.uid]
                    assert answer.reason is None, f"request {row.uid} goes on after its end"
                    answer.tokens += i32(row.tokens).tolist()
                    answer.text += row.text
                    if row.logprobs is not None:
                        answer.logprobs += f32(row.logprobs.values).tolist()
                    if row.finished is not None:
                        self._end(row.uid, row.finished.reason)
                self.do(journal.actions())
            case BatchEmbeddingOut():
                for vector in journal.accept_embeddings(message, now):
                    self.answers[vector.uid].vector = f32(vector.vector).tolist()
                    self._end(vector.uid, vector.finished.reason)
                self.do(journal.actions())
            case ProbeReply():
                self.do(journal.probe_reply(message, now))
            case PeerRestarted():
                self.do(journal.restarted(message, now))

    def _end(self, uid: int, reason: FinishReason) -> None:
        assert self.answers[uid].reason is None, f"request {uid} ended twice"
        self.answers[uid].reason = reason
