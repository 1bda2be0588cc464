"""LLMEngine: what it answers without its engine. What it does with one is tested on real processes."""

import pytest

from banyan.engine import Engine
from banyan.offline import LLMEngine
from banyan.text.request import RequestError


@pytest.fixture
def idle() -> LLMEngine:
    return LLMEngine(Engine.__new__(Engine))  # not started: whatever asks it for something fails


def test_without_requests_a_step_brings_nothing_and_does_not_wait(idle: LLMEngine) -> None:
    assert not idle.has_unfinished_requests()
    assert idle.step() == []


def test_names_that_are_unknown_are_not_aborted(idle: LLMEngine) -> None:
    idle.abort_request("nobody")
    idle.abort_request(iter(["nobody", "else"]))


def test_a_request_must_have_a_name(idle: LLMEngine) -> None:
    with pytest.raises(RequestError, match="request_id: '' is empty"):
        idle.add_request("", "text")
    assert not idle.has_unfinished_requests()
