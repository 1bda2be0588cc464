"""Logging set-up for a process: text or JSON lines that name the process and its replica; and Throttle.

Lines hold no prompts and no outputs: callers log uids, counts and reasons. What a line does hold cannot forge
another one, for control characters are escaped in both formats.
"""

import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import Final, Literal, TextIO

Style = Literal["text", "json"]

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
# C0 and C1 control characters, delete, and the two line separators of Unicode.
_ESCAPES: Final = {
    code: f"\\u{code:04x}" for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029) if chr(code) != "\t"
} | {ord("\n"): "\\n", ord("\r"): "\\r"}


class _Formatter(logging.Formatter):
    """What both formats share: who speaks, and when."""

    def __init__(self, process: str, replica: int | None) -> None:
        super().__init__()
        self._who = process if replica is None else f"{process}-{replica}"
        self._process = process
        self._replica = replica
        self._pid = os.getpid()

    def _time(self, record: logging.LogRecord) -> str:
        return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


class TextFormatter(_Formatter):
    """One line for people: `time level [process-replica pid] logger: message`; a traceback is indented below."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage().translate(_ESCAPES)
        line = f"{self._time(record)} {record.levelname:7} [{self._who} {self._pid}] {record.name}: {message}"
        if record.exc_info:
            trace = self.formatException(record.exc_info).splitlines()
            line += "".join(f"\n    {part.translate(_ESCAPES)}" for part in trace)
        return line


class JsonFormatter(_Formatter):
    """One JSON object a line, for machines."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, str | int] = {
            "time": self._time(record),
            "level": record.levelname.lower(),
            "process": self._process,
            "pid": self._pid,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if self._replica is not None:
            line["replica"] = self._replica
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def setup_logging(
    process: str,
    replica: int | None = None,
    *,
    level: str = "info",
    style: Style = "text",
    stream: TextIO | None = None,
) -> None:
    """Send everything that this process logs to one stream (stderr), replacing what was set up before."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter(process, replica) if style == "json" else TextFormatter(process, replica))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_LEVELS[level])


class Throttle:
    """Lets one event through per interval and counts the rest: a flood must not become a flood of log lines."""

    def __init__(self, interval_s: float = 1.0) -> None:
        self._interval_s = interval_s
        self._next = float("-inf")
        self._held = 0

    def allow(self, now: float) -> int:
        """Return how many events came since the last one let through, this one included; 0: keep quiet."""
        self._held += 1
        if now < self._next:
            return 0
        self._next = now + self._interval_s
        held, self._held = self._held, 0
        return held
