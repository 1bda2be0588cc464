"""Logs, traces, watchdogs."""
