"""Tests of banyan.attention."""
