"""Tests of banyan.commands.generate."""

from collections.abc import Iterator
from typing import Self

import pytest

from banyan.commands import generate
from banyan.config.errors import UserError
from banyan.config.fields import Value, group_leaves
from banyan.config.load import ENGINE_LEAVES, Names
from banyan.config.spec import EngineConfig
from banyan.launch.supervisor import LaunchError
from banyan.text.request import RequestError
from banyan.text.result import Output
from banyan.wire.request import SamplingParams


class FakeEngine:
    """Remembers how it was used; answers in two chunks, or as the prompt says."""

    made: list["FakeEngine"]

    def __init__(self, *, config: EngineConfig) -> None:
        if config.model.path == "unready":
            raise LaunchError("scheduler 0 could not start: no reason")
        self.config = config
        self.asked: tuple[str, dict[str, Value]] | None = None
        self.is_down = False
        self.made.append(self)

    def generate(self, prompt: str, sampling: dict[str, Value], *, stream: bool) -> Iterator[Output]:
        assert stream
        self.asked = (prompt, sampling)
        if prompt == "bad":
            raise RequestError(400, "text", "is bad")
        yield {"text": "to be", "meta_info": {"finish_reason": None}}
        if prompt == "fail":
            yield {"text": "to be", "meta_info": {"finish_reason": {"type": "error", "message": "no more"}}}
        elif prompt != "silence":
            yield {"text": "to be or not", "meta_info": {"finish_reason": {"type": "length", "length": 5}}}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_down = True


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[FakeEngine]:
    made: list[FakeEngine] = []
    monkeypatch.setattr(FakeEngine, "made", made, raising=False)
    monkeypatch.setattr(generate, "Engine", FakeEngine)
    return made


def test_the_answer_is_printed_once_and_the_engine_stopped(
    engines: list[FakeEngine], capsys: pytest.CaptureFixture[str]
) -> None:
    run = generate.prepare(["hello there", "--page-size", "8", "--max-new-tokens", "5", "--temperature=0"])
    assert engines == []  # reading the arguments starts nothing
    assert run() == 0
    [engine] = engines
    assert capsys.readouterr().out == "to be or not\n"
    assert engine.asked == ("hello there", {"max_new_tokens": 5, "temperature": 0.0})
    assert engine.config.memory.page_size == 8
    assert engine.is_down


def test_a_refused_prompt_is_a_mistake_of_the_user_and_the_engine_is_stopped(engines: list[FakeEngine]) -> None:
    with pytest.raises(UserError, match="text: is bad"):
        generate.prepare(["bad"])()
    assert engines[0].is_down


def test_an_engine_that_cannot_start_says_why(engines: list[FakeEngine]) -> None:
    with pytest.raises(UserError, match="scheduler 0 could not start"):
        generate.prepare(["hello", "--model", "unready"])()


@pytest.mark.parametrize(("prompt", "said"), [("fail", "no more"), ("silence", "no end came")])
def test_an_answer_that_is_cut_off_is_status_1(
    engines: list[FakeEngine], capsys: pytest.CaptureFixture[str], prompt: str, said: str
) -> None:
    assert generate.prepare([prompt])() == 1
    out, err = capsys.readouterr()
    assert (out, err) == ("to be\n", f"banyan: the answer is cut off: {said}\n")
    assert engines[0].is_down


def test_the_environment_is_read(engines: list[FakeEngine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANYAN_MEMORY_PAGE_SIZE", "4")
    generate.prepare(["x"])()
    assert engines[0].config.memory.page_size == 4


@pytest.mark.parametrize("argv", [[], ["two", "prompts"], ["x", "--temperature", "-1"], ["x", "--max-new-tokens", "0"]])
def test_anything_but_one_prompt_and_valid_flags_is_refused(argv: list[str]) -> None:
    with pytest.raises(UserError):
        generate.prepare(argv)


def test_the_flags_of_the_command_hide_no_setting_of_the_engine() -> None:
    engine = Names(ENGINE_LEAVES)
    own = Names(generate.SAMPLING_LEAVES)
    assert set(own.all()).isdisjoint(engine.all())


def test_the_flags_are_parameters_of_sampling_with_their_defaults() -> None:
    defaults = SamplingParams()
    for leaf in group_leaves("sampling", generate.SamplingConfig):
        assert getattr(defaults, leaf.name) == leaf.default


def test_the_help_has_both_kinds_of_flags() -> None:
    text = generate.help_text()
    assert "--max-new-tokens" in text
    assert "--page-size" in text


@pytest.mark.slow
def test_a_real_engine_answers_the_same_twice(capfd: pytest.CaptureFixture[str]) -> None:
    answers = []
    for _ in range(2):
        assert generate.prepare(["Hello", "--temperature", "0", "--max-new-tokens", "8", "--log-level", "error"])() == 0
        answers.append(capfd.readouterr())
    assert answers[0] == answers[1]
    assert answers[0].out
    assert answers[0].err == ""
