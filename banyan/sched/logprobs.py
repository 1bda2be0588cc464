"""LogprobBuffer: log-probabilities of one request, from the commit that brings them to the next message."""

import numpy as np

from banyan.plan import RowLogprobs
from banyan.wire.base import F32, I32
from banyan.wire.output import Logprobs
from banyan.wire.request import LogprobSpec


class LogprobBuffer:
    """Collects rows; `take` packs what has come since the last call. Only requests that ask for it have one."""

    __slots__ = ("_chosen", "_prompt", "_top_ids", "_top_values", "_values", "prompt_sent", "spec")

    def __init__(self, spec: LogprobSpec) -> None:
        self.spec = spec
        self.prompt_sent = False
        self._values: list[float] = []
        self._top_ids: list[I32] = []
        self._top_values: list[F32] = []
        self._chosen: list[F32] = []
        self._prompt: list[RowLogprobs] = []

    @property
    def wants_prompt(self) -> bool:
        """Tell whether prompt positions are still to be reported."""
        return self.spec.start >= 0 and not self.prompt_sent

    def restart(self) -> None:
        """Forget prompt rows of a prefill that will be done again."""
        self._prompt.clear()

    def add(self, row: RowLogprobs, sampled: bool) -> None:
        """Take one committed row."""
        if self.wants_prompt and len(row.prompt_values):
            self._prompt.append(row)
        if sampled:
            self._values.append(row.value)
            self._top_ids.append(row.top_ids)
            self._top_values.append(row.top_values)
            self._chosen.append(row.chosen)

    def take(self, row: int) -> Logprobs:
        """Pack and forget what has been collected."""
        packed = Logprobs(
            row=row,
            values=np.asarray(self._values, np.float32).tobytes(),
            top=self.spec.top,
            top_ids=b"".join(a.tobytes() for a in self._top_ids),
            top_values=b"".join(a.tobytes() for a in self._top_values),
            chosen=b"".join(a.tobytes() for a in self._chosen),
            prompt_start=max(self.spec.start, 0),
            prompt_values=b"".join(r.prompt_values.tobytes() for r in self._prompt),
            prompt_top_ids=b"".join(r.prompt_top_ids.tobytes() for r in self._prompt),
            prompt_top_values=b"".join(r.prompt_top_values.tobytes() for r in self._prompt),
            prompt_chosen=b"".join(r.prompt_chosen.tobytes() for r in self._prompt),
        )
        self.prompt_sent = self.prompt_sent or bool(self._prompt)
        for column in (self._values, self._top_ids, self._top_values, self._chosen, self._prompt):
            column.clear()
        return packed
