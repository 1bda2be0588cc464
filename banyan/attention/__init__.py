"""Attention backends: plan on the host, run on the device."""
