"""Tests of banyan.memory.store."""
