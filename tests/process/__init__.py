"""Tests on real processes."""
