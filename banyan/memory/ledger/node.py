"""RadixNode and Namespace: a run of whole pages that follows one prefix, and what separates trees of prefixes."""

from typing import NamedTuple

import numpy as np

from banyan.wire.base import I32


class Namespace(NamedTuple):
    """KV of equal tokens is equal only under the same weights and adapter, and shared only within one salt."""

    salt: str = ""
    lora: str = ""
    weights: int = 0


class RadixNode:
    """One edge of the tree and the node at its end. A root has a namespace and neither tokens nor a parent."""

    __slots__ = (
        "born",
        "children",
        "hits",
        "lock",
        "namespace",
        "pages",
        "parent",
        "priority",
        "row",
        "run",
        "serial",
        "stale",
        "tick",
    )

    def __init__(self, parent: "RadixNode | None", run: bytes, pages: I32, serial: int) -> None:
        self.parent = parent  # None for a root, and for a node that was dropped
        self.children: dict[bytes, RadixNode] = {}  # by the bytes of the child's first page of tokens
        self.run = run  # the int32 tokens as bytes: comparing bytes costs a fraction of comparing arrays
        self.pages = pages  # [len(run) / bytes of a page of tokens]
        self.serial = serial  # unique; breaks ties in the order of eviction
        self.lock = 0  # leases and pins at this node or below it
        self.tick = 0  # when it was last used, in logical time
        self.hits = 0  # leases that found it
        self.priority = 0  # the highest of any lease that used it
        self.born = 0  # the step that computes its KV
        self.row = -1  # its place in the frontier, when it is there
        self.stale = False  # its KV is void; it is only here until its locks are gone
        self.namespace: Namespace | None = None

    @property
    def key(self) -> I32:
        """The tokens of this node, without those of the prefix before it."""
        return np.frombuffer(self.run, np.int32)

    @property
    def evictable(self) -> bool:
        """Whether it is a leaf that nobody holds."""
        return self.lock == 0 and not self.children and self.parent is not None
