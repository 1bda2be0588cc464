"""Sessions: multi-turn conversations whose prefix stays cached between their requests.

The text of a conversation is the front's; here is only what keeps its KV in memory. So a session that this process has
never heard of (it was restarted) is simply opened again by the next request that names it.
"""

from banyan.memory.ledger.cache import Pin, PrefixCache
from banyan.memory.ledger.node import Namespace
from banyan.wire.base import I32


class Sessions:
    """Session id -> the pinned prefix of its last request. Oldest use first."""

    def __init__(self, cache: PrefixCache) -> None:
        self._cache = cache
        self._pins: dict[str, Pin | None] = {}

    def __len__(self) -> int:
        return len(self._pins)

    def open(self, session: str) -> bool:
        """Open a session. False: it is open already."""
        if session in self._pins:
            return False
        self._pins[session] = None
        return True

    def keep(self, session: str, namespace: Namespace, tokens: I32) -> None:
        """A request of the session has ended: pin its prefix, let go of the one before."""
        before = self._pins.pop(session, None)
        self._pins[session] = self._cache.pin(namespace, tokens)
        if before is not None:
            self._cache.unpin(before)

    def close(self, session: str) -> bool:
        """Close a session. False: there is none of this name."""
        if session not in self._pins:
            return False
        pin = self._pins.pop(session)
        if pin is not None:
            self._cache.unpin(pin)
        return True

    def release_oldest(self) -> bool:
        """Memory is short: let the longest unused pinned prefix be evicted. The session stays open."""
        for session, pin in self._pins.items():
            if pin is not None:
                self._cache.unpin(pin)
                self._pins[session] = None
                return True
        return False
