"""NewTokenRatio: how much of what running requests may still write is set aside when another asks to join."""

import numpy as np

from banyan.wire.base import I32, Bool

_INIT = 0.7
_MIN_FRACTION = 0.14
_DECAY_STEPS = 600
_HORIZON = 4096  # output further away than this is not set aside: most requests end before it


class NewTokenRatio:
    """Starts cautious, grows bolder with every decode step, and is set back by a retraction."""

    def __init__(self, conservativeness: float) -> None:
        self._initial = min(_INIT * conservativeness, 1.0)
        self._lowest = self._initial * _MIN_FRACTION
        self._decay = (self._initial - self._lowest) / _DECAY_STEPS
        self.value = self._initial

    def decoded(self) -> None:
        """Note a decode step without trouble."""
        self.value = max(self._lowest, self.value - self._decay)

    def retracted(self, written: int, promised: int) -> None:
        """Note a retraction: expect from now on what the running requests have really used, and some more."""
        share = (written + 20) / (promised + 1)
        self.value = min(1.0, max(self.value, share))

    def idle(self) -> None:
        """Start anew: what was learnt belongs to a load that is gone."""
        self.value = self._initial

    def reserve_tokens(self, remaining: I32, certain: Bool) -> int:
        """Tokens to set aside for requests that may write `remaining` more; all of it where `certain`."""
        expected = np.minimum(remaining, _HORIZON) * self.value
        return int(np.where(certain, remaining, np.ceil(expected)).sum())
