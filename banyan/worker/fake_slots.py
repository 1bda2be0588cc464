"""What the fake device keeps per slot, and what a launched forward pass carries to its sampling."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from banyan.plan import Admission, Step
from banyan.wire.base import I32, I64, Bool
from banyan.worker import utf8
from banyan.worker.fake_kv import DeviceFault
from banyan.worker.oracle import U64
from banyan.worker.utf8 import U8


class FakeSlots:
    """One row per slot; row 0 is padding. Fed only by steps, never by the scheduler's tables."""

    def __init__(self, num_slots: int) -> None:
        size = num_slots + 1
        self.num_slots = num_slots
        self.live: Bool = np.zeros(size, np.bool_)
        self.uids: I64 = np.full(size, -1, np.int64)
        self.lengths: I32 = np.full(size, -1, np.int32)  # positions written; -1 before the first row
        self.origins: U64 = np.zeros(size, np.uint64)  # the state before the first token
        self.states: U64 = np.zeros(size, np.uint64)
        self.texts: U8 = np.zeros(size, np.uint8)
        self.last: I32 = np.full(size, -1, np.int32)  # last sampled token
        self.sampled_in: I64 = np.full(size, -1, np.int64)  # number of the step that sampled it
        self.seeds: U64 = np.zeros(size, np.uint64)  # 0: greedy
        self.may_end: I32 = np.zeros(size, np.int32)  # first position that may hold an ending token
        self.asks: Bool = np.zeros(size, np.bool_)  # more than a token, or early stop tokens: one by one
        self.admissions: dict[int, Admission] = {}

    def drop(self, slots: I32) -> None:
        """Forget requests that have left their slots."""
        self.live[slots] = False
        self.uids[slots] = -1
        for slot in slots.tolist():
            self.admissions.pop(slot, None)

    def admit(self, admission: Admission, origin: int) -> None:
        """Take a request into its slot."""
        slot, sampling = admission.slot, admission.sampling
        if not 1 <= slot <= self.num_slots:
            raise DeviceFault(f"slot {slot} is outside 1..{self.num_slots}")
        if self.live[slot]:
            raise DeviceFault(f"slot {slot} was admitted twice without being released")
        self.live[slot] = True
        self.uids[slot] = admission.uid
        self.lengths[slot] = -1
        self.states[slot] = self.origins[slot] = origin
        self.texts[slot] = utf8.WHOLE
        self.last[slot] = -1
        sampled = sampling is not None and sampling.temperature > 0
        self.seeds[slot] = admission.seed if sampled else 0
        min_new_tokens = sampling.min_new_tokens if sampling is not None else 0
        self.may_end[slot] = admission.prompt_len + min_new_tokens
        early_stops = sampling is not None and min_new_tokens > 0 and bool(sampling.stop_token_ids)
        reports = admission.logprobs is not None or admission.hidden_states
        self.asks[slot] = early_stops or sampling is None or reports
        self.admissions[slot] = admission


class Fed(NamedTuple):
    """The tokens of one extend row, with the states before each."""

    start: int
    tokens: I32
    states: U64
    texts: U8


@dataclass(frozen=True, slots=True)
class Launched:
    """A forward pass: for each row the state after its last token, and when the last stage is done."""

    step: Step
    slots: I32
    samples: Bool
    states: U64
    texts: U8
    positions: I32  # of the token to be sampled
    ready_at: float
    fed: dict[int, Fed] = field(default_factory=dict)  # row -> its tokens, for rows that ask for more than a token

    @staticmethod
    def empty(step: Step, ready_at: float) -> "Launched":
        """Make the columns; the rows fill them."""
        decodes = np.ones(len(step.decode_slots), np.bool_)
        return Launched(
            step=step,
            slots=step.slots(),
            samples=np.concatenate([step.extend_samples, decodes]),
            states=np.zeros(step.num_rows, np.uint64),
            texts=np.zeros(step.num_rows, np.uint8),
            positions=np.zeros(step.num_rows, np.int32),
            ready_at=ready_at,
        )
