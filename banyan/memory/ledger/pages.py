"""TokenToKVPoolAllocator: which pages of KV memory are free."""

import numpy as np

from banyan.memory.ledger.errors import LedgerError
from banyan.wire.base import I32, Bool


class TokenToKVPoolAllocator:
    """A stack of free pages. Page 0 is the padding rows' and is never handed out; real pages are 1..num_pages."""

    __slots__ = ("_is_free", "_mark", "_num_free", "_stack", "num_pages", "page_size")

    def __init__(self, num_pages: int, page_size: int) -> None:
        if num_pages < 1 or page_size < 1:
            raise LedgerError(f"a pool needs at least one page of one token, not {num_pages} pages of {page_size}")
        self.num_pages = num_pages
        self.page_size = page_size
        self._stack: I32 = np.zeros(num_pages, np.int32)
        self._is_free: Bool = np.zeros(num_pages + 1, np.bool_)
        self._mark: I32 = np.zeros(num_pages + 1, np.int32)  # scratch, to find repeats without sorting
        self._num_free = 0
        self.rebuild(np.zeros(num_pages + 1, np.bool_))

    @property
    def num_free(self) -> int:
        """Count the free pages."""
        return self._num_free

    def alloc(self, count: int) -> I32 | None:
        """Take `count` pages, or none at all when there are fewer."""
        if count < 0:
            raise LedgerError(f"cannot allocate {count} pages")
        rest = self._num_free - count
        if rest < 0:
            return None
        pages = self._stack[rest : self._num_free][::-1].copy()
        self._is_free[pages] = False
        self._num_free = rest
        return pages

    def free(self, pages: I32) -> None:
        """Give pages back. A foreign page, a free one, or one named twice is refused and nothing changes."""
        count = len(pages)
        if count == 0:
            return
        if int(pages.min()) < 1 or int(pages.max()) > self.num_pages:
            raise LedgerError(f"cannot free pages outside 1..{self.num_pages}: {_some(pages)}")
        order = np.arange(count, dtype=np.int32)
        self._mark[pages] = order
        if self._is_free[pages].any() or (self._mark[pages] != order).any():
            raise LedgerError(f"cannot free a page twice: one of {_some(pages)} is free already or named twice")
        self._is_free[pages] = True
        self._stack[self._num_free : self._num_free + count] = pages
        self._num_free += count

    def free_list(self) -> I32:
        """Copy the free pages, next to be handed out last."""
        return self._stack[: self._num_free].copy()

    def is_free(self) -> Bool:
        """Copy the mark of every page, 0 included."""
        return self._is_free.copy()

    def rebuild(self, owned: Bool) -> None:
        """Start over: every page not marked in `owned` [num_pages + 1] is free, low pages handed out first."""
        self._is_free[:] = ~owned
        self._is_free[0] = False
        free = np.flatnonzero(self._is_free)[::-1]
        self._num_free = len(free)
        self._stack[: self._num_free] = free


def _some(pages: I32) -> str:
    listed = ", ".join(str(page) for page in pages[:8].tolist())
    return f"{listed}, and {len(pages) - 8} more" if len(pages) > 8 else listed
