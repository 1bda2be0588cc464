"""Measurements: each module prints or writes what it measured."""
