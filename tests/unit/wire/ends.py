"""The two ends of a channel, and ways to take messages from it, for tests of channels."""

import time
from collections.abc import Callable

from banyan.wire.channel import PullChannel, PushChannel
from banyan.wire.codec import Codec
from banyan.wire.control import Failed, FromChild

Pull = PullChannel[FromChild]
Push = PushChannel[FromChild]

CODEC = Codec[FromChild](FromChild)
DEADLINE_S = 10.0


def said(number: int) -> Failed:
    return Failed(reason=str(number))


def receive(pull: Pull, count: int) -> list[FromChild]:
    """Take exactly `count` messages, or fail."""
    got: list[FromChild] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(got) < count:
        assert time.monotonic() < deadline, f"{len(got)} of {count} messages came"
        pull.wait(0.1)
        got += pull.drain()
    assert len(got) == count
    return got


def until(pull: Pull, done: Callable[[], bool]) -> None:
    """Drain until something is true, or fail."""
    deadline = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < deadline
        pull.wait(0.1)
        pull.drain()
