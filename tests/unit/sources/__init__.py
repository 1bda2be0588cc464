"""Tests of banyan.sources."""
