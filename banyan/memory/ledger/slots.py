"""SlotAllocator: which rows of the per-request columns are free."""

from banyan.memory.ledger.errors import LedgerError


class SlotAllocator:
    """Hands out slots 1..num_slots, the one freed last first; slot 0 is the padding rows'."""

    __slots__ = ("_free", "_taken", "num_slots")

    def __init__(self, num_slots: int) -> None:
        if num_slots < 1:
            raise LedgerError(f"at least one slot is needed, not {num_slots}")
        self.num_slots = num_slots
        self._free = list(range(num_slots, 0, -1))
        self._taken = bytearray(num_slots + 1)

    @property
    def num_free(self) -> int:
        """Count the free slots."""
        return len(self._free)

    def alloc(self) -> int | None:
        """Take a slot, or None when all are taken."""
        if not self._free:
            return None
        slot = self._free.pop()
        self._taken[slot] = True
        return slot

    def free(self, slot: int) -> None:
        """Give a slot back."""
        if not 1 <= slot <= self.num_slots or not self._taken[slot]:
            raise LedgerError(f"cannot free slot {slot}: it is not taken")
        self._taken[slot] = False
        self._free.append(slot)
