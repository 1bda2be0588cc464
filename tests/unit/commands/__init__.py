"""Tests of banyan.commands."""
