"""Tests of banyan.config."""
