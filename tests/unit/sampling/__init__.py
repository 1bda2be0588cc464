"""Tests of banyan.sampling."""
