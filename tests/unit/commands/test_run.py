"""Tests of banyan.commands.run."""

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from banyan.commands import run
from banyan.commands.chat import CHAT_LEAVES
from banyan.config.env import cache_dir
from banyan.config.errors import UserError
from banyan.config.load import ENGINE_LEAVES, Names, read
from banyan.config.spec import EngineConfig
from banyan.launch.supervisor import LaunchError
from banyan.sources.resolve import resolve_source
from banyan.text.result import Output
from banyan.text.tokenizer import load_tokenizer
from tests.unit.commands.models import put_model
from tests.unit.commands.test_answer import chunk

MODEL = "pypi:tiny"


class FakeEngine:
    """Remembers how it was used; answers in two chunks, or as the prompt says."""

    made: list["FakeEngine"]

    def __init__(self, *, config: EngineConfig) -> None:
        if config.memory.page_size == 1:
            raise LaunchError("scheduler 0 could not start: no reason")
        spec = "byte" if config.model.path == "oracle" else str(put_path(config))
        self.config = config
        self.attachment = SimpleNamespace(settled=SimpleNamespace(tokenizer=spec))
        self.tokenizer_manager = SimpleNamespace(tokenizer=load_tokenizer(spec))
        self.asked: list[tuple[str | None, Sequence[int] | None, Mapping[str, Any]]] = []
        self.is_down = False
        self.made.append(self)

    def generate(
        self, prompt: str | None, sampling: Mapping[str, Any], input_ids: Sequence[int] | None, *, stream: bool
    ) -> Iterator[Output]:
        assert stream
        self.asked.append((prompt, input_ids, sampling))
        yield chunk("to be", 2)
        if prompt == "stop":
            raise KeyboardInterrupt
        if prompt == "fail":
            yield chunk("to be", 2, {"type": "error", "message": "no more"})
        else:
            yield chunk("to be or not", 4, {"type": "stop"})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_down = True


def put_path(config: EngineConfig) -> Path:
    """Return the file of the model, which a test has put into its cache."""
    return resolve_source(config.model.path, cache_dir(), download=False).path


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch, cache: Path) -> list[FakeEngine]:
    made: list[FakeEngine] = []
    monkeypatch.setattr(FakeEngine, "made", made, raising=False)
    monkeypatch.setattr(run, "Engine", FakeEngine)
    return made


def typed(monkeypatch: pytest.MonkeyPatch, text: str, *, is_terminal: bool) -> None:
    class Stdin(io.StringIO):
        def isatty(self) -> bool:
            return is_terminal

    monkeypatch.setattr("sys.stdin", Stdin(text))


def test_one_question_is_answered_on_stdout_and_its_figures_on_stderr(
    engines: list[FakeEngine], capsys: pytest.CaptureFixture[str]
) -> None:
    action = run.prepare(["oracle", "to be?", "--max-new-tokens", "5"])
    assert engines == []
    assert action() == 0
    out, err = capsys.readouterr()
    assert out == "to be or not\n"
    assert "oracle is ready after" in err
    assert "prompt 9 (4 cached)" in err
    (engine,) = engines
    ((prompt, ids, sampling),) = engine.asked
    assert (prompt, ids, sampling["max_new_tokens"]) == ("to be?", None, 5)
    assert engine.is_down


def test_a_chat_template_is_used_with_the_instruction(engines: list[FakeEngine], cache: Path) -> None:
    put_model(cache, MODEL)
    assert run.prepare([MODEL, "a", "--system", "be brief"])() == 0
    ((prompt, ids, _),) = engines[0].asked
    assert prompt is None
    assert ids is not None
    text = engines[0].tokenizer_manager.tokenizer.decode(ids)
    assert "be brief" in text
    assert "'user'" in text


def test_the_question_may_come_on_stdin(engines: list[FakeEngine], monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, "from a pipe\n", is_terminal=False)
    assert run.prepare(["oracle"])() == 0
    assert engines[0].asked[0][0] == "from a pipe"


def test_stdin_is_left_alone_when_there_is_a_prompt(engines: list[FakeEngine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)  # reading would fail
    assert run.prepare(["oracle", "hello"])() == 0


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_stdin_is_refused(engines: list[FakeEngine], monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    typed(monkeypatch, text, is_terminal=False)
    with pytest.raises(UserError, match="the prompt is empty"):
        run.prepare(["oracle"])()
    assert engines == []


def test_a_stdin_that_is_no_text_is_refused(engines: list[FakeEngine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\xff"), encoding="utf-8"))
    with pytest.raises(UserError, match="not UTF-8 text: invalid start byte at byte 1"):
        run.prepare(["oracle"])()


def test_on_a_terminal_a_chat_begins(
    engines: list[FakeEngine], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "", is_terminal=True)
    lines = iter(["hello", "/set parameter temperature 0", "again", "/bye"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
    assert run.prepare(["oracle"])() == 0
    assert [(prompt, sampling["temperature"]) for prompt, _, sampling in engines[0].asked] == [
        ("hello", 0.7),
        ("again", 0.0),
    ]
    assert capsys.readouterr().out.count("to be or not\n") == 2
    assert engines[0].is_down


def test_an_answer_that_is_cut_off_is_status_1(engines: list[FakeEngine], capsys: pytest.CaptureFixture[str]) -> None:
    assert run.prepare(["oracle", "fail"])() == 1
    assert "banyan: the answer is cut off: no more" in capsys.readouterr().err


def test_ctrl_c_ends_one_answer_as_it_ends_a_program(engines: list[FakeEngine]) -> None:
    with pytest.raises(KeyboardInterrupt):
        run.prepare(["oracle", "stop"])()
    assert engines[0].is_down


def test_an_engine_that_cannot_start_says_why(engines: list[FakeEngine]) -> None:
    with pytest.raises(UserError, match="scheduler 0 could not start"):
        run.prepare(["oracle", "x", "--page-size", "1"])()


def test_a_model_that_makes_vectors_is_refused(engines: list[FakeEngine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "model_card", lambda model: SimpleNamespace(name="minilm", is_generation=False))
    with pytest.raises(UserError, match="minilm makes vectors"):
        run.prepare(["oracle", "x"])()
    assert engines == []


def test_the_model_is_the_word_or_the_setting_or_a_small_one() -> None:
    def path(argv: list[str], variables: Mapping[str, str]) -> str:
        return run.settings(read(argv, variables)).model.path

    assert path([], {}) == "smollm2:135m"
    assert path(["a"], {"BANYAN_MODEL_PATH": "b"}) == "a"
    assert path([], {"BANYAN_MODEL_PATH": "b"}) == "b"
    assert path(["--model", "c"], {}) == "c"
    with pytest.raises(UserError, match="--model and 'a' both name a model"):
        path(["a", "--model", "c"], {})


def test_a_chat_is_quiet_unless_a_log_is_asked_for() -> None:
    assert run.settings(read([])).observe.log_level == "warning"
    assert run.settings(read(["--log-level", "info"])).observe.log_level == "info"


def test_more_than_a_model_and_a_prompt_is_refused() -> None:
    with pytest.raises(UserError, match="put quotes around the prompt"):
        run.prepare(["m", "two", "words"])


def test_the_flags_hide_no_other_and_are_in_the_help() -> None:
    own, others = Names(run.PERSONA_LEAVES).all(), Names((*ENGINE_LEAVES, *CHAT_LEAVES)).all()
    assert set(own).isdisjoint(others)
    for flag in ("--system", "--top-p", "--page-size"):
        assert flag in run.help_text()


@pytest.mark.slow
def test_a_real_engine_answers(capfd: pytest.CaptureFixture[str]) -> None:
    assert run.prepare(["oracle", "Hello", "--temperature", "0", "--max-new-tokens", "8"])() == 0
    out, err = capfd.readouterr()
    assert out
    assert "prompt 5 (0 cached)" in err
