"""Control messages, their replies, load reports, and what the supervisor tells the fronts."""

from typing import Annotated, Literal

from msgspec import Meta

from banyan.wire.base import Int32Column, Int64Column, Message
from banyan.wire.output import BatchEmbeddingOut, BatchStrOut, BatchTokenIDOut
from banyan.wire.request import (
    AbortAllReq,
    AbortReq,
    ProbeReq,
    TokenizedEmbeddingReqInput,
    TokenizedGenerateReqInput,
)


class ControlReq(Message, frozen=True, kw_only=True):
    """A call to every replica; each answers once with a ControlReply that carries the same number."""

    front: Annotated[int, Meta(ge=0)]
    call: Annotated[int, Meta(ge=0)]


class FlushCacheReqInput(ControlReq, frozen=True, kw_only=True):
    """Forget every cached prefix that no request holds."""


class GetServerInfoReq(ControlReq, frozen=True, kw_only=True):
    """Report the state of a replica."""


class PauseGenerationReqInput(ControlReq, frozen=True, kw_only=True):
    """Stop planning. `retract` gives the memory of running requests back; they resume where they were."""

    retract: bool = False


class ContinueGenerationReqInput(ControlReq, frozen=True, kw_only=True):
    """Plan again."""


class OpenSessionReqInput(ControlReq, frozen=True, kw_only=True):
    """Open a session: its tokens stay cached between its requests."""

    id: Annotated[str, Meta(min_length=1, max_length=128)]
    capacity: Annotated[int, Meta(ge=1)]


class CloseSessionReqInput(ControlReq, frozen=True, kw_only=True):
    """Close a session and let go of what it holds."""

    id: Annotated[str, Meta(min_length=1, max_length=128)]


class ProfileReq(ControlReq, frozen=True, kw_only=True):
    """Start or stop the profiler."""

    action: Literal["start", "stop"]


class ServerInfo(Message, frozen=True, kw_only=True):
    """State of a replica at one moment."""

    running: int = 0
    waiting: int = 0
    free_pages: int = 0
    cached_pages: int = 0
    held_pages: int = 0
    total_pages: int = 0
    page_size: int = 0
    steps: int = 0
    retractions: int = 0
    leaks_healed: int = 0
    bad_frames: int = 0
    sessions: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


class ControlReply(Message, frozen=True, kw_only=True):
    """One replica's answer to a ControlReq."""

    front: int
    call: int
    replica: int
    ok: bool = True
    message: str = ""
    info: ServerInfo | None = None


class ProbeReply(Message, frozen=True, kw_only=True):
    """What a replica holds of the requests asked after; `next` is the output position it will send next."""

    front: int
    replica: int
    uids: Int64Column  # every uid that was asked
    epochs: Int32Column  # the epoch held here, -1 where unknown
    next: Int32Column

    def mismatch(self) -> str:
        same = len(self.uids) == 2 * len(self.epochs) == 2 * len(self.next)
        return "" if same else "uids, epochs and next differ in rows"


class LoadReport(Message, frozen=True, kw_only=True):
    """How busy a replica is; sent to the controller after a turn that changed it."""

    replica: int
    running: int
    waiting: int
    waiting_tokens: int
    used_tokens: int
    total_tokens: int


class PeerRestarted(Message, frozen=True, kw_only=True):
    """The supervisor's word to a front: a process died, and its successor is ready.

    `suspects` are the requests in the steps that were in flight; `newcomers` had just entered."""

    kind: Literal["scheduler", "detokenizer", "controller"]
    index: int
    incarnation: int
    cause: str = ""
    deliberate: bool = False  # killed from outside (SIGKILL, SIGTERM): no request's own fault is likely
    suspects: Int64Column = b""
    newcomers: Int64Column = b""


class PeerLost(Message, frozen=True, kw_only=True):
    """The restart budget is spent: what this process did will not be done any more."""

    kind: Literal["scheduler", "detokenizer", "controller"]
    index: int
    cause: str = ""


ToScheduler = (
    TokenizedGenerateReqInput
    | TokenizedEmbeddingReqInput
    | AbortReq
    | AbortAllReq
    | ProbeReq
    | FlushCacheReqInput
    | GetServerInfoReq
    | PauseGenerationReqInput
    | ContinueGenerationReqInput
    | OpenSessionReqInput
    | CloseSessionReqInput
    | ProfileReq
)
ToDetokenizer = BatchTokenIDOut | BatchEmbeddingOut | ControlReply | ProbeReply
ToFront = BatchStrOut | BatchEmbeddingOut | ControlReply | ProbeReply | PeerRestarted | PeerLost


class Ready(Message, frozen=True, kw_only=True):
    """A child's first word to its parent: it serves. `schema` must equal the parent's."""

    schema: str
    pid: int
    max_total_num_tokens: int = 0
    max_req_input_len: int = 0


class Failed(Message, frozen=True, kw_only=True):
    """A child's last word: why it could not start."""

    reason: str


FromChild = Ready | Failed
