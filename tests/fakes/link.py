"""FakeLink: both ends of a KV link between two fake devices. A transfer takes a few polls, and may fail."""

from collections.abc import Callable
from dataclasses import dataclass

from banyan.disagg.links.base import Handover, Key, Lost, Progress
from banyan.wire.base import I32
from banyan.worker.fake_kv import FakeKV


@dataclass(slots=True)
class _Send:
    pages: I32
    handover: Handover
    polls_left: int


class FakeLink:
    """Copies pages from one FakeKV to another at the moment that a transfer ends, through the tables of that moment.

    So pages that either side gave away too early show up as wrong tokens or faults."""

    def __init__(
        self, source: FakeKV, target: FakeKV, polls: int = 3, fails: Callable[[Key], bool] = lambda _: False
    ) -> None:
        self.sender = FakeSender(self)
        self.receiver = FakeReceiver(self)
        self.source = source
        self.target = target
        self.polls = polls
        self.fails = fails
        self.expected: dict[Key, tuple[I32, int]] = {}
        self.sends: dict[Key, _Send] = {}
        self.results: dict[Key, Handover | Lost] = {}

    @property
    def is_empty(self) -> bool:
        """Tell whether no transfer is left in any state."""
        return not (self.expected or self.sends or self.results)


class FakeSender:
    """The prefill server's end."""

    def __init__(self, link: FakeLink) -> None:
        self._link = link

    def wanted(self, key: Key) -> bool:
        """Tell whether the other side expects it."""
        return key in self._link.expected

    def send(self, key: Key, pages: I32, handover: Handover) -> None:
        """Start the transfer."""
        self._link.sends[key] = _Send(pages, handover, self._link.polls)
        if not handover.has_kv:
            self._deliver(key, self._link.sends.pop(key))

    def poll(self, key: Key) -> Progress:
        """Take one of the polls that the transfer lasts."""
        link, send = self._link, self._link.sends[key]
        if key not in link.expected:
            del link.sends[key]
            return Progress.FAILED
        if send.polls_left:
            send.polls_left -= 1
            return Progress.UNDER_WAY
        del link.sends[key]
        if link.fails(key):
            link.results[key] = Lost("planted failure")
            return Progress.FAILED
        self._deliver(key, send)
        return Progress.DONE

    def cancel(self, key: Key) -> None:
        """Stop the transfer."""
        self._link.sends.pop(key, None)

    def refuse(self, key: Key, reason: str) -> None:
        """Tell the receiver."""
        self.cancel(key)
        if key in self._link.expected:
            self._link.results[key] = Lost(reason)

    def _deliver(self, key: Key, send: _Send) -> None:
        link = self._link
        if key not in link.expected:
            return
        targets, skip = link.expected[key]
        if send.handover.has_kv:
            link.target.load(targets, link.source.export(send.pages[skip:]))
        link.results[key] = send.handover


class FakeReceiver:
    """The decode server's end."""

    def __init__(self, link: FakeLink) -> None:
        self._link = link

    def expect(self, key: Key, pages: I32, skip: int) -> None:
        """Offer the pages."""
        self._link.expected[key] = (pages, skip)

    def arrived(self, key: Key) -> Handover | Lost | None:
        """Hand the outcome over, once."""
        outcome = self._link.results.pop(key, None)
        if outcome is not None:
            del self._link.expected[key]
        return outcome

    def cancel(self, key: Key) -> None:
        """Forget it."""
        self._link.expected.pop(key, None)
        self._link.results.pop(key, None)
