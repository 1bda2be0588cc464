"""Recorded scheduling: decisions must not change unnoticed."""
