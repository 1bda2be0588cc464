"""Tests of banyan.text."""
