"""Req: one request as the scheduler sees it. What changes every step is not here but in Columns."""

from enum import IntEnum

import numpy as np

from banyan.memory.ledger.node import Namespace
from banyan.plan import Grammar
from banyan.sched.hidden import HiddenBuffer
from banyan.sched.logprobs import LogprobBuffer
from banyan.wire.base import I32, i32
from banyan.wire.output import FinishReason
from banyan.wire.request import TokenizedEmbeddingReqInput, TokenizedGenerateReqInput


class Phase(IntEnum):
    """Where a request is in its life; also a column, so that a step can be planned without touching a Req."""

    WAITING = 0  # in the queue, holds nothing
    PREFILL = 1  # has a slot; part of its prompt is still to be launched
    DECODE = 2  # has a slot; one token a step
    HELD = 3  # has a slot, but a role keeps it out of every step (KV on its way in or out)
    RETRACT = 4  # gives its slot back as soon as no step in flight touches it, then waits again
    DONE = 5  # has ended; its slot is free as soon as no step in flight touches it


class Req:
    """A request from arrival to release. Written only inside `sched` and by roles."""

    __slots__ = (
        "admitted_at",
        "arrived_at",
        "ask",
        "cached_tokens",
        "deadline",
        "first_token_at",
        "grammar",
        "hidden",
        "logprobs",
        "number",
        "opened",
        "phase",
        "prompt_len",
        "quiet",
        "reason",
        "retractions",
        "reused",
        "sent",
        "slot",
        "tokens",
    )

    def __init__(
        self,
        ask: TokenizedGenerateReqInput | TokenizedEmbeddingReqInput,
        number: int,
        now: float,
        deadline: float,
    ) -> None:
        self.ask = ask
        self.number = number  # order of arrival: the tie-breaker everywhere
        self.arrived_at = now
        self.deadline = deadline  # leave the queue by then
        self.admitted_at = -1.0
        self.first_token_at = -1.0
        prompt = i32(ask.tokens)
        committed = i32(ask.committed) if isinstance(ask, TokenizedGenerateReqInput) else prompt[:0]
        self.prompt_len = len(prompt)
        # Prompt and output known so far; while the request has a slot, the token table is ahead of this.
        self.tokens: I32 = np.concatenate((prompt, committed))
        self.sent = len(self.tokens)  # tokens up to here are with the front, or on their way to it
        self.slot = 0
        self.phase = Phase.WAITING
        self.reason: FinishReason | None = None
        self.quiet = False  # nobody listens any more: end without a word
        self.opened = False  # the detokenizer has been told of this epoch
        self.retractions = 0
        self.reused = 0  # leading tokens whose KV the present lease took from the cache
        self.cached_tokens = 0  # the same at the first admission: what the user is told
        self.grammar: Grammar | None = None
        spec = ask.logprobs if isinstance(ask, TokenizedGenerateReqInput) else None
        self.logprobs = LogprobBuffer(spec) if spec is not None else None
        asks_hidden = isinstance(ask, TokenizedGenerateReqInput) and ask.return_hidden_states
        self.hidden = HiddenBuffer() if asks_hidden else None

    @property
    def uid(self) -> int:
        """Number of the request."""
        return self.ask.uid

    @property
    def is_embedding(self) -> bool:
        """Tell whether the request asks for a vector, not for tokens."""
        return isinstance(self.ask, TokenizedEmbeddingReqInput)

    @property
    def max_new_tokens(self) -> int:
        """Output tokens at most, those already committed included."""
        return self.ask.sampling.max_new_tokens if isinstance(self.ask, TokenizedGenerateReqInput) else 0

    @property
    def length_limit(self) -> int:
        """Length at which the request ends, prompt and output together."""
        return self.prompt_len + self.max_new_tokens

    @property
    def reusable(self) -> int:
        """Leading tokens whose KV may come from the cache: at least one token must be computed, and log-probabilities
        of prompt positions need those positions computed."""
        limit = len(self.tokens) - 1
        if self.logprobs is not None and self.logprobs.wants_prompt:
            limit = min(limit, self.logprobs.spec.start)
        return limit

    def set_grammar(self, grammar: Grammar) -> None:
        """Constrain the output; the state catches up with what is committed."""
        for token in self.tokens[self.prompt_len :].tolist():
            grammar.accept(token)
        self.grammar = grammar

    def namespace(self, weight_version: int) -> Namespace:
        """Say under which key the request's prefixes are shared."""
        return Namespace(self.ask.salt, self.ask.lora, weight_version)
