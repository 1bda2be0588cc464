"""ReqToTokenPool: the page table and the last sampled token of every slot, on the device."""

import torch
from torch import Tensor

from banyan.wire.base import I32


class ReqToTokenPool:
    """Rows indexed by slot. Slot 0 is for padding; its pages are page 0."""

    def __init__(self, num_slots: int, max_pages: int, device: torch.device) -> None:
        self.device = device
        self.page_table = torch.zeros((num_slots + 1, max_pages), dtype=torch.int32, device=device)
        self.last_tokens = torch.zeros(num_slots + 1, dtype=torch.int64, device=device)

    def set_pages(self, slots: I32, indices: I32, pages: I32) -> None:
        """Write table[slots[i], indices[i]] = pages[i]: the entries that changed since the last step."""
        if len(slots):
            where = (self._index(slots), self._index(indices))
            self.page_table[where] = self._index(pages).to(torch.int32)

    def set_last_tokens(self, slots: Tensor, tokens: Tensor) -> None:
        """Keep what was sampled for slots [n]; the next step feeds it."""
        self.last_tokens[slots] = tokens

    def get_last_tokens(self, slots: Tensor) -> Tensor:
        """Return the tokens that decode rows of slots [n] feed."""
        return self.last_tokens[slots]

    def _index(self, column: I32) -> Tensor:
        # The copy makes the column writable: torch warns of a tensor over memory that is not.
        return torch.from_numpy(column.copy()).to(device=self.device, dtype=torch.int64)
