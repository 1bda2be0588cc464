"""Prefill and decode on different servers."""
