"""Step, StepResult, Transfer, and the protocols Executor, Pending and Grammar: where deciding meets doing.

A Step is plain data: numbers and numpy columns, no device objects. Rank 0 makes it; every rank runs it.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from banyan.wire.base import F32, I32, Bool
from banyan.wire.control import ControlReply, ControlReq
from banyan.wire.request import LogprobSpec, SamplingParams

U32 = npt.NDArray[np.uint32]

_NO_I32: I32 = np.zeros(0, np.int32)
_NO_F32: F32 = np.zeros(0, np.float32)
_NO_BOOL: Bool = np.zeros(0, np.bool_)


def _no_i32() -> I32:
    return _NO_I32


def _no_f32() -> F32:
    return _NO_F32


def _no_bool() -> Bool:
    return _NO_BOOL


@dataclass(frozen=True, slots=True)
class Admission:
    """What the device must know of a request, sent once, with the step that first feeds it in a slot."""

    slot: int
    uid: int
    epoch: int
    sampling: SamplingParams | None  # None: an embedding, nothing is sampled
    seed: int
    prompt_len: int
    history: I32  # prompt and committed output: penalties count from here
    logprobs: LogprobSpec | None = None
    hidden_states: bool = False
    lora: str = ""


@dataclass(frozen=True, slots=True)
class Transfer:
    """An order to move pages between tiers or machines; its id comes back in StepResult.transfers_done."""

    id: int
    source: str
    target: str
    source_pages: I32
    target_pages: I32


@dataclass(frozen=True, slots=True)
class Step:
    """One launch. Rows are the extend rows, then the decode rows; each row belongs to one slot.

    The device keeps per slot: its page table, its last sampled token, its sampling state. So a decode row is only
    a slot and a position: it feeds the slot's last token at that position. `page_*` are the page-table entries that
    changed since the last step: table[page_slots[i], page_indices[i]] = page_ids[i]; they apply before the rows run.

    KV written by a row may be read by any later row of the same step: a layer writes all rows' KV before it attends.
    """

    number: int
    extend_slots: I32 = field(default_factory=_no_i32)  # [E]
    extend_starts: I32 = field(default_factory=_no_i32)  # [E] position of the first token fed
    extend_lengths: I32 = field(default_factory=_no_i32)  # [E]
    extend_tokens: I32 = field(default_factory=_no_i32)  # [sum of lengths]
    extend_samples: Bool = field(default_factory=_no_bool)  # [E] False for every chunk of a prompt but its last
    decode_slots: I32 = field(default_factory=_no_i32)  # [D]
    decode_positions: I32 = field(default_factory=_no_i32)  # [D] position of the token fed
    page_slots: I32 = field(default_factory=_no_i32)  # [P]
    page_indices: I32 = field(default_factory=_no_i32)  # [P]
    page_ids: I32 = field(default_factory=_no_i32)  # [P]
    admissions: tuple[Admission, ...] = ()
    released: I32 = field(
        default_factory=_no_i32
    )  # slots given back since the last step; their device state may be dropped
    transfers: tuple[Transfer, ...] = ()
    masked_rows: I32 = field(default_factory=_no_i32)  # rows whose sampling needs a grammar mask
    needs_history: bool = False  # a masked row's earlier token is in flight: commit all before sampling
    steady: bool = False  # the same decode rows as the step before, one position on, nothing else changed

    def slots(self) -> I32:
        """List the slot of every row."""
        if not len(self.extend_slots):
            return self.decode_slots
        return np.concatenate((self.extend_slots, self.decode_slots))

    @property
    def num_extend(self) -> int:
        """Count the extend rows."""
        return len(self.extend_slots)

    @property
    def num_rows(self) -> int:
        """Count all rows."""
        return len(self.extend_slots) + len(self.decode_slots)

    @property
    def num_tokens(self) -> int:
        """Count the tokens fed."""
        return len(self.extend_tokens) + len(self.decode_slots)


@dataclass(frozen=True, slots=True)
class RowLogprobs:
    """Log-probabilities of one row, for a request that asked."""

    row: int
    value: float  # of the sampled token
    top_ids: I32 = field(default_factory=_no_i32)  # [top]
    top_values: F32 = field(default_factory=_no_f32)
    chosen: F32 = field(default_factory=_no_f32)
    # prompt positions fed by this row: log-probability of each fed token given those before it
    prompt_values: F32 = field(default_factory=_no_f32)
    prompt_top_ids: I32 = field(default_factory=_no_i32)  # [positions * top]
    prompt_top_values: F32 = field(default_factory=_no_f32)
    prompt_chosen: F32 = field(default_factory=_no_f32)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What came of a Step: one token per row, -1 where the row did not sample."""

    tokens: I32  # [rows]
    logprobs: tuple[RowLogprobs, ...] = ()
    embeddings: F32 | None = None  # [rows, dim], zero where a row is no finished embedding
    failed: tuple[tuple[int, str], ...] = ()  # rows that failed alone (non-finite logits), with the reason
    transfers_done: tuple[int, ...] = ()
    # of rows that sampled for a request that asked: the last layer's state [dim] that the logits came from
    hidden_states: tuple[tuple[int, F32], ...] = ()


class Forward(Protocol):
    """A launched forward pass whose logits are not sampled yet."""


class Pending(Protocol):
    """A launched step whose tokens are on their way."""

    def ready(self) -> bool:
        """Tell whether `wait` would return at once."""

    def wait(self) -> StepResult:
        """Block until the tokens are on the host."""


class Executor(Protocol):
    """Runs steps in order. `forward` and `sample` launch and return; an exception means the step did not happen."""

    def forward(self, step: Step) -> Forward:
        """Launch the forward pass."""

    def sample(self, forward: Forward, masks: U32 | None) -> Pending:
        """Launch sampling; `masks` [masked rows, words] holds a bit per allowed token of step.masked_rows."""

    def recover(self) -> None:
        """Drop every launched step and the state of every slot after a failed step."""

    def control(self, request: ControlReq) -> ControlReply | None:
        """Carry out the device's part of a control message."""


class Grammar(Protocol):
    """The state of one request's constraint. `fill` is for the next token, after every `accept`."""

    def accept(self, token: int) -> None:
        """Advance over a token."""

    def fill(self, mask: U32) -> None:
        """Set the bits of the allowed tokens."""
