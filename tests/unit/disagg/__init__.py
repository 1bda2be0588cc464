"""Tests of banyan.disagg."""
