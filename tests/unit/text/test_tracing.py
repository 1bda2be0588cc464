"""Tests of banyan.text.tracing."""

from pathlib import Path

from banyan.obs.trace import Tracer, read_spans
from banyan.text.tracing import Tracing


def test_the_tracer_of_this_project_will_do(tmp_path: Path) -> None:
    tracer: Tracing = Tracer(tmp_path, "front")
    tracer.event("TokenizerManager.send", 7, 1.5)
    assert [(span.name, span.uid, span.start) for span in read_spans(tmp_path)] == [("TokenizerManager.send", 7, 1.5)]
    assert tracer.enabled
    assert not Tracer(None, "front").enabled
