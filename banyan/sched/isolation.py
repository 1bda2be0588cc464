"""Isolation: after a step that raised, find the request to blame without losing the others."""

from banyan.plan import Step
from banyan.poison import Tribunal
from banyan.sched.roster import Roster


class Isolation:
    """A Tribunal that speaks in steps. Costs nothing while nobody is suspected."""

    def __init__(self) -> None:
        self._tribunal = Tribunal()

    @property
    def active(self) -> bool:
        """Tell whether anybody is suspected."""
        return self._tribunal.active

    def holds_back(self, uid: int) -> bool:
        """Tell whether a request must wait while others are tried."""
        tribunal = self._tribunal
        return uid in tribunal.quarantined or (tribunal.closed and uid not in tribunal.on_trial)

    def crashed(self, suspects: set[int], newcomers: set[int], *, complete: bool) -> set[int]:
        """A step with these requests raised. Returns those found guilty.

        Not `complete`: somebody who has ended meanwhile was in it too. Then even a crash alone proves nothing yet."""
        return set(self._tribunal.crashed(suspects, newcomers, deliberate=not complete))

    def progressed(self, step: Step, roster: Roster) -> None:
        """A step came back: whoever has a new token is cleared. A chunk of a prompt says nothing about the next."""
        if not self._tribunal.active:
            return
        for slot in [*step.extend_slots[step.extend_samples].tolist(), *step.decode_slots.tolist()]:
            req = roster.by_slot[slot]
            if req is not None:
                self._tribunal.progressed(req.uid)

    def ended(self, uid: int) -> None:
        """A request is gone."""
        if self._tribunal.active:
            self._tribunal.ended(uid)
