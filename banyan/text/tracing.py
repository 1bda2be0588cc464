"""Tracing: what this package wants of a tracer."""

from typing import Protocol


class Tracing(Protocol):
    """Records what happens to a request. Hot callers test `enabled` first."""

    enabled: bool

    def event(self, name: str, uid: int, now: float) -> None:
        """Record that `name` happened to request `uid`."""
