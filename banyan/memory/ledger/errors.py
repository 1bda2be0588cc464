"""LedgerError: the books would be wrong if this were done, so it was not done."""


class LedgerError(RuntimeError):
    """A caller broke a rule of the ledger; nothing was changed."""
