"""Role: what a server of one kind does around the schedule; Unified is the role of a plain server."""

from typing import Protocol

from banyan.sched.req import Req
from banyan.sched.roster import Roster


class Role(Protocol):
    """Where a request goes on arrival, when its prompt has been launched, and when its first token is known."""

    speaks: bool  # does this server send tokens to the detokenizer?

    def arrive(self, req: Req) -> None:
        """Take in a new request."""

    def poll(self, now: float) -> bool:
        """Move requests whose outside condition is met. True while any is outstanding."""

    def prompt_launched(self, req: Req) -> None:
        """The request's last prompt chunk is in the step being planned."""

    def prompt_committed(self, req: Req) -> None:
        """The request's first token is known, and it has not ended."""

    def gone(self, req: Req) -> None:
        """The request has ended, wherever it was: forget it."""


class Unified:
    """Prefill and decode in one place."""

    speaks = True

    def __init__(self, roster: Roster) -> None:
        self._roster = roster

    def arrive(self, req: Req) -> None:
        """Queue it."""
        self._roster.enqueue(req)

    def poll(self, now: float) -> bool:  # noqa: ARG002
        """Wait for nothing."""
        return False

    def prompt_launched(self, req: Req) -> None:
        """Decode from the next step on, if there is anything to decode."""
        if req.length_limit > len(req.tokens):
            self._roster.start_decode(req)
        else:
            self._roster.hold(req)

    def prompt_committed(self, req: Req) -> None:
        """Do nothing: it decodes already."""

    def gone(self, req: Req) -> None:
        """Do nothing: nothing is kept."""
