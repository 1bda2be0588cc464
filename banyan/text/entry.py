"""Entry: one live request in the journal; and what a journal says: Accepted, Failure, Actions, Counters."""

from dataclasses import dataclass, field

import msgspec

from banyan.text.request import Request
from banyan.wire.control import ToScheduler
from banyan.wire.output import Finished, FinishReason, HiddenStates, Logprobs


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """New output of a request, fit to be told to its client."""

    uid: int
    tokens: bytes
    text: str
    first: bool  # nothing of the request was accepted before
    finished: Finished | None
    logprobs: Logprobs | None
    hidden_states: HiddenStates | None = None


class AcceptedEmbedding(msgspec.Struct, frozen=True, gc=False):
    """The vector of an embedding request; empty if the request failed."""

    uid: int
    vector: bytes
    finished: Finished


class Failure(msgspec.Struct, frozen=True, gc=False):
    """The end of a request that no scheduler will bring about."""

    uid: int
    reason: FinishReason


@dataclass(slots=True)
class Actions:
    """What must be done because of an event: messages to send in this order, failures to tell the clients."""

    messages: list[ToScheduler] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


@dataclass(slots=True)
class Counters:
    """Rows by what became of them, and requests that entered again."""

    accepted: int = 0
    fenced: int = 0  # of an old epoch, or of a request that is gone
    duplicates: int = 0
    gaps: int = 0
    reentered: int = 0
    probes: int = 0
    convicted: int = 0


@dataclass(slots=True)
class Entry:
    """One live request."""

    request: Request
    heard: float  # when it last made progress, or entered
    epoch: int = 0
    committed: bytearray = field(default_factory=bytearray)  # int32 output tokens that the client has
    next: int = 0  # the output position that comes next
    text_length: int = 0  # characters that the client has
    replica: int = -1  # where it runs, as far as known
    held: bool = False  # waits here until others are cleared of a crash
    asked: float | None = None  # when it was last asked after, if it was since it entered
    missing: set[int] = field(default_factory=set)  # replicas that have answered: not here
    behind: float | None = None  # since when a replica says to have sent more than has arrived
