"""Tests of banyan.disagg.links."""
