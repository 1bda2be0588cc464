"""Tests of banyan.memory.ledger."""
