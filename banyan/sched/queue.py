"""WaitingQueue: requests that hold nothing yet, in the order of the policy; they leave one by one or by deadline."""

import bisect
import heapq
from collections.abc import Iterator

from banyan.sched.policy import QueueKey
from banyan.sched.req import Phase, Req

_STALE = 64  # deadlines of requests that left, which are kept before it is worth sweeping them out


class WaitingQueue:
    """A sorted list. Adding and removing cost a binary search and a memory move, never a sort."""

    def __init__(self) -> None:
        self._entries: list[tuple[QueueKey, Req]] = []
        self._keys: dict[int, QueueKey] = {}  # uid -> key
        self._deadlines: list[tuple[float, int, Req]] = []
        self.num_tokens = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Req]:
        return (req for _, req in self._entries)

    def __contains__(self, req: Req) -> bool:
        return req.uid in self._keys

    def head(self, count: int) -> list[Req]:
        """List the first requests in the order of their keys."""
        return [req for _, req in self._entries[:count]]

    def add(self, req: Req, key: QueueKey) -> None:
        """Put a request where its key belongs."""
        bisect.insort(self._entries, (key, req), key=lambda entry: entry[0])
        self._keys[req.uid] = key
        self.num_tokens += len(req.tokens)
        if not req.retractions:  # who has run already is not turned away
            heapq.heappush(self._deadlines, (req.deadline, req.number, req))

    def remove(self, req: Req) -> None:
        """Take a request out."""
        key = self._keys.pop(req.uid)
        index = bisect.bisect_left(self._entries, key, key=lambda entry: entry[0])
        self._entries.pop(index)
        self.num_tokens -= len(req.tokens)
        if len(self._deadlines) > 2 * len(self._entries) + _STALE:
            self._sweep()

    def expired(self, now: float) -> list[Req]:
        """Take out the requests whose deadline has passed. Deadlines of requests that left earlier are dropped here."""
        late = []
        while self._deadlines and self._deadlines[0][0] <= now:
            _, _, req = heapq.heappop(self._deadlines)
            if req.phase is Phase.WAITING and not req.retractions:
                self.remove(req)
                late.append(req)
        return late

    def _sweep(self) -> None:
        """Drop the deadlines of requests that have left: each keeps its request, prompt and all, in memory."""
        waiting = {key[-1] for key in self._keys.values()}
        self._deadlines = [entry for entry in self._deadlines if entry[1] in waiting]
        heapq.heapify(self._deadlines)
