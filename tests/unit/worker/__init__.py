"""Tests of banyan.worker."""
