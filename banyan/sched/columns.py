"""Columns: the state of running requests that changes every step, as numpy arrays indexed by slot.

Lengths of one sequence, all counted in tokens from its start:

    0 ........ prompt_len ............ known ......... fed ... fed + 1
    |  prompt  |  output on the host   | in flight      | sampled by the last launched step, on the device

`fed` tokens have been given to the device; once the prompt is through, its last step samples token number `fed`.
"""

import numpy as np

from banyan.sched.req import Phase, Req
from banyan.wire.base import I32, Bool
from banyan.wire.request import TokenizedGenerateReqInput

STOP_IDS = 4  # stop tokens checked in one comparison; requests with more are checked one by one


class Columns:
    """One row per slot; row 0 is padding."""

    def __init__(self, num_slots: int, context_length: int) -> None:
        rows = num_slots + 1
        self.uid = np.zeros(rows, np.int64)
        self.epoch = np.zeros(rows, np.int32)
        self.phase = np.zeros(rows, np.int8)
        self.prompt_len = np.zeros(rows, np.int32)
        self.known = np.zeros(rows, np.int32)
        self.fed = np.zeros(rows, np.int32)
        self.sent = np.zeros(rows, np.int32)  # tokens up to here have gone to the detokenizer
        self.limit = np.zeros(rows, np.int32)  # length at which the request ends
        self.stop_floor = np.zeros(rows, np.int32)  # stop tokens count only beyond this length
        self.in_flight = np.zeros(rows, np.int32)  # launched steps not yet committed
        self.interval = np.ones(rows, np.int32)  # tokens between two messages
        self.stop_ids: I32 = np.full((rows, STOP_IDS), -1, np.int32)
        self.opened: Bool = np.zeros(rows, np.bool_)  # the detokenizer knows the request
        self.certain: Bool = np.zeros(rows, np.bool_)  # retracted twice: all it may write is set aside for it
        self.special: Bool = np.zeros(rows, np.bool_)  # has a grammar, log-probabilities or many stop tokens
        # Tokens of every running sequence. Untouched pages of this array cost no memory.
        self.tokens: I32 = np.empty((rows, context_length + 1), np.int32)

    def fill(self, slot: int, req: Req, stop_ids: tuple[int, ...], interval: int) -> None:
        """Write a request into its row when it gets its slot."""
        ask = req.ask
        known = len(req.tokens)
        self.uid[slot] = ask.uid
        self.epoch[slot] = ask.epoch
        self.prompt_len[slot] = req.prompt_len
        self.known[slot] = known
        self.fed[slot] = req.reused
        self.sent[slot] = req.sent
        self.opened[slot] = req.opened
        self.limit[slot] = req.length_limit
        floor = ask.sampling.min_new_tokens if isinstance(ask, TokenizedGenerateReqInput) else 0
        self.stop_floor[slot] = req.prompt_len + min(floor, req.max_new_tokens)  # the sum must fit the column
        self.in_flight[slot] = 0
        self.interval[slot] = interval
        self.stop_ids[slot] = -1
        few = stop_ids[:STOP_IDS]
        self.stop_ids[slot, : len(few)] = few
        self.certain[slot] = req.retractions >= 2
        reports = req.logprobs is not None or req.hidden is not None
        self.special[slot] = req.grammar is not None or reports or len(stop_ids) > STOP_IDS
        self.tokens[slot, :known] = req.tokens

    def set_phase(self, req: Req, phase: Phase) -> None:
        """Change a request's phase here and on the request."""
        req.phase = phase
        if req.slot:
            self.phase[req.slot] = phase

    def sequence(self, slot: int, length: int) -> I32:
        """View the first tokens of a running sequence."""
        return self.tokens[slot, :length]
