"""DataParallelController: a request goes to one replica, everything else to all; no socket, no clock."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from banyan.route.balance import Balance, LoadTable, Request
from banyan.wire.control import CloseSessionReqInput, LoadReport, PeerLost, PeerRestarted, ToScheduler
from banyan.wire.request import TokenizedEmbeddingReqInput, TokenizedGenerateReqInput

HOMES = 1 << 16  # requests, and sessions, whose replica is kept

Key = TypeVar("Key", bound=Hashable)


class Homes(Generic[Key]):
    """Which replica something lives on; the least recently used is forgotten when there are too many."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._homes: OrderedDict[Key, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._homes)

    def get(self, key: Key) -> int | None:
        """Return the replica, if known."""
        return self._homes.get(key)

    def put(self, key: Key, replica: int) -> None:
        """Remember the replica."""
        self._homes[key] = replica
        self._homes.move_to_end(key)
        if len(self._homes) > self._capacity:
            self._homes.popitem(last=False)

    def drop(self, key: Key) -> None:
        """Forget it."""
        self._homes.pop(key, None)


class DataParallelController:
    """One inbox, several replicas: names the replicas that get a message. What a dead replica loses, the fronts
    enter again, so a wrong guess here costs time, never a request."""

    def __init__(self, num_replicas: int, balance: Balance, capacity: int = HOMES) -> None:
        self._all = tuple(range(num_replicas))
        self._alive = self._all
        self._balance = balance
        self._loads = LoadTable(num_replicas)
        self._requests: Homes[int] = Homes(capacity)
        self._sessions: Homes[str] = Homes(capacity)

    @property
    def alive(self) -> tuple[int, ...]:
        """The replicas that requests go to."""
        return self._alive

    def dispatch(self, message: ToScheduler) -> tuple[int, ...]:
        """Name the replicas that get a message."""
        if isinstance(message, TokenizedGenerateReqInput | TokenizedEmbeddingReqInput):
            return (self._place(message),)
        if isinstance(message, CloseSessionReqInput):
            self._sessions.drop(message.id)
        return self._all

    def report(self, report: LoadReport) -> None:
        """Take note of a replica's load."""
        if report.replica in self._all:
            self._loads.report(report)

    def peer(self, news: PeerLost | PeerRestarted) -> None:
        """Take note that a replica died, or that its successor is ready."""
        if news.kind != "scheduler" or news.index not in self._all:
            return
        self._loads.reset(news.index)
        self._balance.forget(news.index)
        others = tuple(replica for replica in self._alive if replica != news.index)
        self._alive = others if isinstance(news, PeerLost) else tuple(sorted((*others, news.index)))

    def _place(self, request: Request) -> int:
        home = self._home(request)
        # With nobody alive all are candidates: one may be about to return, and the fronts know what to do if not.
        candidates = self._alive or self._all
        if home is not None and home in self._alive:
            candidates = (home,)
        replica = self._balance.place(request, candidates, self._loads)
        self._loads.sent(replica, num_tokens(request))
        self._requests.put(request.uid, replica)
        if isinstance(request, TokenizedGenerateReqInput) and request.session is not None:
            self._sessions.put(request.session.id, replica)
        return replica

    def _home(self, request: Request) -> int | None:
        if isinstance(request, TokenizedGenerateReqInput) and request.session is not None:
            home = self._sessions.get(request.session.id)
            if home is not None:
                return home
        # A request that enters again finds its KV where it was, if that replica lives.
        return self._requests.get(request.uid) if request.epoch > 0 else None


def num_tokens(request: Request) -> int:
    """Count the tokens that a request brings along."""
    committed = request.committed if isinstance(request, TokenizedGenerateReqInput) else b""
    return (len(request.tokens) + len(committed)) // 4
