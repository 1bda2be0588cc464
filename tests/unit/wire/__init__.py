"""Tests of banyan.wire."""
