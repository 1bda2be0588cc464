"""Tests that the pages are true."""
