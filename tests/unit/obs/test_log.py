"""Tests of banyan.obs.log."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from banyan.obs.log import Style, Throttle, setup_logging


@pytest.fixture(autouse=True)
def root() -> Iterator[None]:
    """Give the root logger back as it was."""
    logger = logging.getLogger()
    handlers, level = list(logger.handlers), logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


def lines(style: Style, replica: int | None = 2, level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    setup_logging("scheduler", replica, level=level, style=style, stream=stream)
    return stream


def test_a_text_line_names_process_and_replica() -> None:
    stream = lines("text")
    logging.getLogger("banyan.sched").warning("%d requests retracted", 3)
    line = stream.getvalue()
    assert "WARNING [scheduler-2 " in line
    assert line.endswith("] banyan.sched: 3 requests retracted\n")


def test_a_json_line_is_an_object() -> None:
    stream = lines("json")
    logging.getLogger("banyan.sched").error("lost %s", "it")
    line = json.loads(stream.getvalue())
    assert line["process"] == "scheduler"
    assert line["replica"] == 2
    assert line["level"] == "error"
    assert line["logger"] == "banyan.sched"
    assert line["message"] == "lost it"
    assert line["time"].endswith("+00:00")


def test_a_process_without_replica_names_none() -> None:
    stream = lines("json", replica=None)
    logging.getLogger().info("x")
    assert "replica" not in json.loads(stream.getvalue())
    stream = lines("text", replica=None)
    logging.getLogger().info("x")
    assert "[scheduler " in stream.getvalue()


@pytest.mark.parametrize("style", ["text", "json"])
@pytest.mark.parametrize("evil", ["a\nb", "a\r\nb", "a\x1b[2Jb", "a\x85b", "a\u2028b", "a\x00b"])
def test_a_message_cannot_forge_a_line(style: Style, evil: str) -> None:
    stream = lines(style)
    logging.getLogger().info("%s", evil)
    assert len(stream.getvalue().splitlines()) == 1
    assert "\x1b" not in stream.getvalue()
    assert "\x00" not in stream.getvalue()


@pytest.mark.parametrize("style", ["text", "json"])
def test_an_error_brings_its_traceback(style: Style) -> None:
    stream = lines(style)
    try:
        raise ValueError("bad\x1bthing")
    except ValueError:
        logging.getLogger().exception("failed")
    text = stream.getvalue()
    assert "Traceback" in text
    assert "test_log.py" in text
    assert "\x1b" not in text
    if style == "text":
        assert all(line.startswith("    ") for line in text.splitlines()[1:])
    else:
        assert "ValueError" in json.loads(text)["error"]


def test_the_level_is_a_threshold_and_the_last_set_up_wins() -> None:
    old = lines("text")
    new = lines("text", level="error")
    logging.getLogger().warning("quiet")
    logging.getLogger().error("loud")
    assert old.getvalue() == ""
    assert "loud" in new.getvalue()
    assert "quiet" not in new.getvalue()


def test_a_throttle_lets_one_through_per_interval_and_counts_the_rest() -> None:
    throttle = Throttle(1.0)
    assert [throttle.allow(now) for now in (5.0, 5.1, 5.9, 6.0, 6.5, 7.5)] == [1, 0, 0, 3, 0, 2]
