"""HiddenBuffer: hidden states of one request, from the commit that brings them to the next message."""

import numpy as np

from banyan.wire.base import F32
from banyan.wire.output import HiddenStates


class HiddenBuffer:
    """Collects a state for each new token; `take` packs what has come since the last call. Only requests that ask
    for it have one. What was taken is with the front, so a request that is fed again does not report it again."""

    __slots__ = ("_states",)

    def __init__(self) -> None:
        self._states: list[F32] = []

    def add(self, state: F32) -> None:
        """Take the state of one committed token."""
        self._states.append(state)

    def take(self, row: int) -> HiddenStates | None:
        """Pack and forget what has been collected; None if there is nothing."""
        if not self._states:
            return None
        values: F32 = np.concatenate(self._states, dtype=np.float32)
        packed = HiddenStates(row=row, dim=len(self._states[0]), values=values.tobytes())
        self._states.clear()
        return packed
