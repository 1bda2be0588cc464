"""Pair: a prefill server and a decode server with a link between them; each request goes to both."""

from collections.abc import Callable

from banyan.disagg.decode import Decode
from banyan.disagg.links.base import Key
from banyan.disagg.prefill import Prefill
from banyan.wire.control import ToScheduler
from banyan.worker.clock import VirtualClock
from banyan.worker.oracle import Oracle
from tests.fakes.link import FakeLink
from tests.fakes.server import Server, Shape


class Pair:
    """Two servers on one clock. Tokens come from the decode server."""

    def __init__(
        self,
        left: Shape,
        right: Shape,
        oracle: Oracle,
        polls: int = 3,
        fails: Callable[[Key], bool] = lambda _: False,
    ) -> None:
        clock = VirtualClock()
        self.prefill = Server(left, oracle, clock)
        self.decode = Server(right, oracle, clock)
        self.link = FakeLink(self.prefill.executor.kv, self.decode.executor.kv, polls, fails)
        scheduler = self.prefill.scheduler
        scheduler.role = Prefill(scheduler.roster, self.link.sender, scheduler.finish)
        scheduler = self.decode.scheduler
        scheduler.role = Decode(scheduler.roster, self.link.receiver, scheduler.finish)
        self.clock = clock

    def send(self, message: ToScheduler) -> None:
        """Send a message to both servers."""
        self.prefill.inbox.append(message)
        self.decode.inbox.append(message)

    def turn(self) -> bool:
        """Let each server take a turn. Waiting for each other takes time too."""
        self.clock.sleep_until(self.clock.now() + 0.001)
        busy = [self.prefill.loop.turn(), self.decode.loop.turn()]
        return any(busy)

    def run(self, limit: int = 40_000) -> None:
        """Take turns until there is nothing to do."""
        for _ in range(limit):
            if not self.turn():
                return
        raise AssertionError(f"still busy after {limit} turns")

    def leaks(self) -> list[str]:
        """Say what is left behind on either side."""
        found = [f"prefill: {leak}" for leak in self.prefill.leaks()]
        found += [f"decode: {leak}" for leak in self.decode.leaks()]
        return found if self.link.is_empty else [*found, "the link is not empty"]
