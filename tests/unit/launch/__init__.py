"""Tests of banyan/launch."""
