"""Tests of banyan.obs.trace."""

import logging
import os
import stat
from pathlib import Path

import pytest

from banyan.obs.trace import Span, Tracer, read_spans


def test_spans_of_several_processes_come_back_in_order(tmp_path: Path) -> None:
    front, scheduler = Tracer(tmp_path, "front"), Tracer(tmp_path, "scheduler-0")
    front.span("tokenize", 7, 1.0, 2.0)
    front.event("finish", 7, 9.0)
    scheduler.span("prefill", 7, 3.0, 4.0)
    scheduler.span("queue", 7, 2.5, 3.0)
    front.close()
    scheduler.close()
    assert read_spans(tmp_path) == [
        Span(start=1.0, end=2.0, process="front", name="tokenize", uid=7),
        Span(start=2.5, end=3.0, process="scheduler-0", name="queue", uid=7),
        Span(start=3.0, end=4.0, process="scheduler-0", name="prefill", uid=7),
        Span(start=9.0, end=9.0, process="front", name="finish", uid=7),
    ]


def test_a_disabled_tracer_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tracer = Tracer(None, "front")
    assert not tracer.enabled
    tracer.span("tokenize", 7, 1.0, 2.0)
    tracer.event("finish", 7, 9.0)
    tracer.close()
    assert list(tmp_path.iterdir()) == []


def test_spans_are_on_disk_at_once_and_private(tmp_path: Path) -> None:
    tracer = Tracer(tmp_path / "new" / "folder", "front")
    tracer.event("arrive", 1, 0.5)
    [file] = (tmp_path / "new" / "folder").iterdir()
    assert file.name == f"front-{os.getpid()}.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(read_spans(file.parent)) == 1  # though the tracer is still open, as after a kill
    tracer.close()
    tracer.event("late", 1, 0.6)
    assert len(read_spans(file.parent)) == 1


def test_a_line_cut_short_is_left_out(tmp_path: Path) -> None:
    tracer = Tracer(tmp_path, "front")
    tracer.event("arrive", 1, 0.5)
    tracer.event("leave", 1, 0.75)
    tracer.close()
    [file] = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-5])
    (tmp_path / "other.jsonl").write_bytes(b'\xff\n{"start": 1}\n[]\n\n')
    assert [span.name for span in read_spans(tmp_path)] == ["arrive"]


def test_a_write_error_ends_the_trace_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_fd: int, _data: bytes) -> int:
        raise OSError(28, "No space left on device")

    tracer = Tracer(tmp_path, "front")
    with caplog.at_level(logging.WARNING), monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        tracer.event("arrive", 1, 0.5)
        tracer.event("leave", 1, 0.6)
    assert not tracer.enabled
    assert caplog.text.count("tracing stopped") == 1
