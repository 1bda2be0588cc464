"""docs/life-of-a-request.md names the events of a real request, in their order."""

import re
from pathlib import Path

from banyan.engine import Engine
from banyan.obs.trace import read_spans

PAGE = Path(__file__).resolve().parents[2] / "docs" / "life-of-a-request.md"
STEP = re.compile(r"^\d+\. (\w+) · `([\w.]+)`", re.MULTILINE)


def test_the_page_lists_the_events_of_a_request(tmp_path: Path) -> None:
    # Steps slow enough that the first token has been told before the last one is sampled.
    with Engine(model_path="oracle", trace=str(tmp_path), recovery="stop", debug_oracle_step_ms=25.0) as engine:
        chunks = list(engine.generate("once upon a time", {"max_new_tokens": 12, "ignore_eos": True}, stream=True))
    assert chunks[-1]["meta_info"]["completion_tokens"] == 12
    told = [(process, event) for process, event in STEP.findall(PAGE.read_text(encoding="utf-8"))]
    seen = [(re.sub(r"\d+$", "", span.process), span.name) for span in read_spans(tmp_path)]
    assert seen == told
