"""KVLink: how KV pages get from a prefill server to a decode server; one protocol for each end."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from banyan.wire.base import I32


class Key(NamedTuple):
    """One incarnation of a request: what an older one still sends is never taken for the newer one's."""

    uid: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Handover:
    """What goes with the pages: the first token, and how much of the prompt came from the prefill server's cache."""

    token: int
    cached_tokens: int
    has_kv: bool = True  # False: the first token ended the request, no pages were sent


class Progress(Enum):
    """How far a send is."""

    UNDER_WAY = 0
    DONE = 1
    FAILED = 2


class Lost(NamedTuple):
    """Nothing will come, and why."""

    reason: str


class KVSender(Protocol):
    """The prefill server's end. No call blocks but `cancel`."""

    def wanted(self, key: Key) -> bool:
        """Tell whether a decode server has pages ready for this request."""

    def send(self, key: Key, pages: I32, handover: Handover) -> None:
        """Start to copy a sequence's pages, from its first on; those that the receiver has are left out."""

    def poll(self, key: Key) -> Progress:
        """Tell how far a send is."""

    def cancel(self, key: Key) -> None:
        """Stop a send: on return its pages are read no more. The receiver goes on waiting."""

    def refuse(self, key: Key, reason: str) -> None:
        """Tell the receiver that nothing will come; also stops a send."""


class KVReceiver(Protocol):
    """The decode server's end. No call blocks but `cancel`."""

    def expect(self, key: Key, pages: I32, skip: int) -> None:
        """Offer the pages of a sequence to be written to; the first `skip` are here already and not among them."""

    def arrived(self, key: Key) -> Handover | Lost | None:
        """Tell what became of a request that is expected. None: nothing yet."""

    def cancel(self, key: Key) -> None:
        """Expect a request no more: on return its pages are written no more."""
