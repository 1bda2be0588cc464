"""Which replica takes a request: round_robin, shortest_queue, prefix_aware; pure functions of a load table."""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Literal, Protocol

from banyan.wire.control import LoadReport
from banyan.wire.request import TokenizedEmbeddingReqInput, TokenizedGenerateReqInput

Request = TokenizedGenerateReqInput | TokenizedEmbeddingReqInput
LoadBalanceMethod = Literal["round_robin", "shortest_queue", "prefix_aware"]

BLOCK_BYTES = 64 * 4  # a prefix is compared in blocks of 64 tokens
MAX_BLOCKS = 1024  # of one request: what lies beyond hardly changes which replica fits best
INDEX_BLOCKS = 1 << 17  # all replicas together, about 8 million tokens
SLACK_REQUESTS = 8  # below so many requests a difference in load means little
BETA = 1.0


class LoadTable:
    """The load of each replica: its last report, and what was sent to it since.

    A report may have crossed a request on its way, so what was sent is counted until the second report after it.
    Counting a request twice for a moment is harmless; not counting it would let a burst land on one replica.
    """

    def __init__(self, num_replicas: int) -> None:
        self._reports: list[LoadReport | None] = [None] * num_replicas
        self._sent: list[deque[tuple[int, int]]] = [deque([(0, 0), (0, 0)], maxlen=2) for _ in range(num_replicas)]

    def report(self, report: LoadReport) -> None:
        """Take a replica's word."""
        self._reports[report.replica] = report
        self._sent[report.replica].append((0, 0))

    def sent(self, replica: int, num_tokens: int) -> None:
        """Count a request that was just sent to a replica."""
        requests, tokens = self._sent[replica].pop()
        self._sent[replica].append((requests + 1, tokens + num_tokens))

    def reset(self, replica: int) -> None:
        """Forget a replica: it is new."""
        self._reports[replica] = None
        self._sent[replica].extend([(0, 0), (0, 0)])

    def requests(self, replica: int) -> int:
        """Count the requests that a replica runs, queues, or is about to get."""
        report = self._reports[replica]
        known = 0 if report is None else report.running + report.waiting
        return known + sum(requests for requests, _ in self._sent[replica])

    def pressure(self, replica: int) -> float:
        """Return the share of a replica's KV memory that is in use or wanted: request counts hide long contexts."""
        report = self._reports[replica]
        if report is None or report.total_tokens <= 0:
            return 0.0
        tokens = report.used_tokens + report.waiting_tokens + sum(tokens for _, tokens in self._sent[replica])
        return tokens / report.total_tokens


class Balance(Protocol):
    """A method of spreading requests."""

    def place(self, request: Request, replicas: Sequence[int], loads: LoadTable, /) -> int:
        """Choose one of the replicas, of which there is at least one, and remember the choice."""

    def forget(self, replica: int) -> None:
        """Learn that a replica lost what it had cached."""


class RoundRobin:
    """Each replica in turn: the one that waited longest."""

    def __init__(self, num_replicas: int) -> None:
        self._turns = [0] * num_replicas
        self._tick = 0

    def place(self, _request: Request, replicas: Sequence[int], _loads: LoadTable, /) -> int:
        """Choose the replica whose last turn is longest ago."""
        return self.take(min(replicas, key=self.last_turn))

    def last_turn(self, replica: int) -> int:
        """Return when a replica last took a request, as a tick; this also decides among equals elsewhere."""
        return self._turns[replica]

    def take(self, replica: int) -> int:
        """Give a replica its turn."""
        self._tick += 1
        self._turns[replica] = self._tick
        return replica

    def forget(self, replica: int) -> None:
        """Nothing is remembered of a replica's cache."""


class ShortestQueue:
    """The replica with the fewest requests."""

    def __init__(self, num_replicas: int) -> None:
        self._turns = RoundRobin(num_replicas)

    def place(self, _request: Request, replicas: Sequence[int], loads: LoadTable, /) -> int:
        """Choose the least busy replica."""
        return self._turns.take(
            min(replicas, key=lambda replica: (loads.requests(replica), self._turns.last_turn(replica)))
        )

    def forget(self, replica: int) -> None:
        """Nothing is remembered of a replica's cache."""


class PrefixIndex:
    """Roughly which prefixes each replica has seen: hashed blocks with a bit per replica, oldest dropped first."""

    def __init__(self, num_replicas: int, capacity: int = INDEX_BLOCKS) -> None:
        self._all = (1 << num_replicas) - 1
        self._capacity = capacity
        self._masks: OrderedDict[bytes, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._masks)

    def matched(self, blocks: Sequence[bytes]) -> dict[int, int]:
        """Count the leading blocks that each replica has seen; replicas that saw none are absent."""
        counts: dict[int, int] = {}
        alive = self._all
        for depth, block in enumerate(blocks):
            mask = self._masks.get(block, 0)
            counts.update((replica, depth) for replica in _bits(alive & ~mask) if depth)
            alive &= mask
            if not alive:
                return counts
        counts.update((replica, len(blocks)) for replica in _bits(alive) if blocks)
        return counts

    def add(self, blocks: Sequence[bytes], replica: int) -> None:
        """Note that a replica has seen these blocks."""
        for block in reversed(blocks):  # the first block last: a prefix must not be dropped before what follows it
            self._masks[block] = self._masks.pop(block, 0) | (1 << replica)
        while len(self._masks) > self._capacity:
            self._masks.popitem(last=False)

    def forget(self, replica: int) -> None:
        """Drop a replica's bit everywhere."""
        keep = ~(1 << replica)
        self._masks = OrderedDict((block, mask & keep) for block, mask in self._masks.items() if mask & keep)


class PrefixAware:
    """The replica with the best matched_fraction - beta * relative_load.

    One score for both: an affinity that is thrown away as soon as loads differ, or one that ignores load, are the two
    known ways for such a router to go wrong.
    """

    def __init__(self, num_replicas: int, beta: float = BETA, capacity: int = INDEX_BLOCKS) -> None:
        self._beta = beta
        self._index = PrefixIndex(num_replicas, capacity)
        self._turns = RoundRobin(num_replicas)

    def place(self, request: Request, replicas: Sequence[int], loads: LoadTable, /) -> int:
        """Choose the replica with the best score; it will have this prompt cached."""
        blocks = hash_blocks(request)
        matched = self._index.matched(blocks)
        relative = relative_load(replicas, loads)

        def cost(replica: int) -> tuple[float, int]:
            fraction = matched.get(replica, 0) / max(1, len(blocks))
            return self._beta * relative[replica] - fraction, self._turns.last_turn(replica)

        replica = self._turns.take(min(replicas, key=cost))
        self._index.add(blocks, replica)
        return replica

    def forget(self, replica: int) -> None:
        """A restarted replica begins with an empty cache."""
        self._index.forget(replica)


def relative_load(replicas: Sequence[int], loads: LoadTable) -> dict[int, float]:
    """Return how much busier than the least busy each replica is, in shares of the mean."""
    requests = {replica: loads.requests(replica) for replica in replicas}
    pressure = {replica: loads.pressure(replica) for replica in replicas}
    fewest, lowest = min(requests.values()), min(pressure.values())
    unit = sum(requests.values()) / len(requests) + SLACK_REQUESTS
    return {replica: (requests[replica] - fewest) / unit + (pressure[replica] - lowest) for replica in replicas}


def hash_blocks(request: Request) -> list[bytes]:
    """Hash a request's full blocks of tokens, each together with all before it, under its tenant and adapter."""
    tokens = request.tokens
    if isinstance(request, TokenizedGenerateReqInput):
        tokens += request.committed
    parent = blake2b(f"{len(request.salt)}:{request.salt}{request.lora}".encode(), digest_size=16).digest()
    blocks = []
    for start in range(0, min(len(tokens), MAX_BLOCKS * BLOCK_BYTES) - BLOCK_BYTES + 1, BLOCK_BYTES):
        parent = blake2b(tokens[start : start + BLOCK_BYTES], digest_size=16, key=parent).digest()
        blocks.append(parent)
    return blocks


def make_balance(method: LoadBalanceMethod, num_replicas: int) -> Balance:
    """Build a balance method by its name."""
    methods: dict[LoadBalanceMethod, type[RoundRobin | ShortestQueue | PrefixAware]] = {
        "round_robin": RoundRobin,
        "shortest_queue": ShortestQueue,
        "prefix_aware": PrefixAware,
    }
    return methods[method](num_replicas)


def _bits(mask: int) -> Iterable[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
