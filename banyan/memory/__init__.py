"""KV memory: the ledger decides, the store holds."""
