"""Tracer: spans of a request across processes, as JSON lines; read_spans() puts them in order.

Times are CLOCK_MONOTONIC, which all processes of a host share, so spans of different processes compare.
"""

import logging
import os
from pathlib import Path

import msgspec


class Span(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that a process did for a request; an event is a span without length."""

    start: float
    end: float
    process: str
    name: str
    uid: int


class Tracer:
    """Appends spans to a file of its own in a folder; without a folder it does nothing.

    Hot callers test `enabled` themselves, so that a disabled tracer costs one attribute."""

    def __init__(self, folder: Path | None, process: str) -> None:
        self.enabled = folder is not None
        self._process = process
        self._encoder = msgspec.json.Encoder()
        self._fd = -1
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # The pid keeps a process and its successor after a crash apart.
            path = folder / f"{process}-{os.getpid()}.jsonl"
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def span(self, name: str, uid: int, start: float, end: float) -> None:
        """Record that `name` was done for request `uid` from start to end."""
        if self.enabled:
            self._append(Span(start=start, end=end, process=self._process, name=name, uid=uid))

    def event(self, name: str, uid: int, now: float) -> None:
        """Record that `name` happened to request `uid`."""
        if self.enabled:
            self._append(Span(start=now, end=now, process=self._process, name=name, uid=uid))

    def close(self) -> None:
        """Stop tracing and close the file."""
        self.enabled = False
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _append(self, span: Span) -> None:
        try:
            # Unbuffered: the last spans before a crash are the ones that matter.
            os.write(self._fd, self._encoder.encode(span) + b"\n")
        except OSError as error:  # a full disk ends the trace, not the process
            logging.getLogger(__name__).warning("tracing stopped: %s", error)
            self.close()


def read_spans(folder: Path) -> list[Span]:
    """Read the spans of all processes, ordered by time. A line that a crash cut short is left out."""
    decoder = msgspec.json.Decoder(Span)
    spans = []
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            try:
                spans.append(decoder.decode(line))
            except ValueError:
                continue
    return sorted(spans, key=lambda span: (span.start, span.end))
