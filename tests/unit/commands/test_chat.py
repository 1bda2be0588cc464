"""Tests of banyan.commands.chat."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from banyan.commands.chat import CHAT_LEAVES, HELP, Ask, Chat, ChatConfig, Leave, More, Say
from banyan.config.load import ENGINE_LEAVES, FILE_LEAVES, Names
from banyan.text.request import GenerateReqInput, Limits, normalise
from banyan.wire.request import SamplingParams

DEFAULTS = {leaf.name: leaf.default for leaf in CHAT_LEAVES}


def made(system: str = "") -> Chat:
    return Chat("tiny", DEFAULTS, system)


def said(chat: Chat, line: str) -> str:
    action = chat.feed(line)
    assert isinstance(action, Say)
    return action.text


def test_questions_and_answers_become_messages() -> None:
    chat = made("be brief")
    assert chat.feed("  hello ") == Ask()
    chat.answered("hi")
    assert chat.feed("and?") == Ask()
    assert chat.messages == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "and?"},
    ]
    chat.unanswered()
    assert chat.messages[-1] == {"role": "assistant", "content": "hi"}


def test_an_empty_line_is_nothing() -> None:
    chat = made()
    assert chat.feed("   ") == Say("")
    assert chat.feed('""" """') == Say("")
    assert chat.messages == []


def test_a_message_of_several_lines_is_kept_as_it_is() -> None:
    chat = made()
    assert chat.feed('"""def f():') == More()
    assert chat.feed("") == More()
    assert chat.feed("    /bye") == More()
    assert chat.feed('    return 1"""') == Ask()
    assert chat.messages[0]["content"] == "def f():\n\n    /bye\n    return 1"
    assert chat.feed('"""one line"""') == Ask()
    assert chat.messages[1]["content"] == "one line"


def test_quotes_on_lines_of_their_own_are_no_part_of_the_message() -> None:
    chat = made()
    assert [chat.feed(line) for line in ('"""', "  a", '"""')] == [More(), More(), Ask()]
    assert chat.messages[0]["content"] == "  a"


def test_a_message_that_is_not_complete_can_be_dropped() -> None:
    chat = made()
    chat.feed('"""never mind')
    chat.drop_line()
    assert chat.feed("/bye") == Leave()
    assert chat.messages == []


def test_clear_forgets_all_but_the_instruction() -> None:
    chat = made("be brief")
    chat.feed("hello")
    chat.answered("hi")
    assert "forgotten" in said(chat, "/clear")
    assert chat.messages == [{"role": "system", "content": "be brief"}]
    said(chat, "/set system be  kind")
    assert chat.messages == [{"role": "system", "content": "be  kind"}]
    said(chat, "/set system")
    assert chat.messages == []


def test_parameters_are_set_and_shown() -> None:
    chat = made()
    assert said(chat, "/set parameter temperature 0") == "temperature is 0.0"
    assert said(chat, "/set parameter num_predict 7") == "max_new_tokens is 7"
    said(chat, "/set parameter seed 3")
    said(chat, "/set parameter stop the end")
    sampling = chat.sampling()
    assert (sampling["temperature"], sampling["max_new_tokens"], sampling["sampling_seed"]) == (0.0, 7, 3)
    assert sampling["stop"] == ["the end"]
    lines = [line.split(maxsplit=1) for line in said(chat, "/show").splitlines()]
    assert ["model", "tiny"] in lines
    assert ["max_new_tokens", "7"] in lines


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/set parameter temperature hot", "'hot' is not allowed"),
        ("/set parameter top_p 0", "it must be a number"),
        ("/set parameter temprature 1", "did you mean temperature"),
        ("/set parameter temperature", "usage: /set parameter NAME VALUE"),
        ("/set", "usage:"),
        ("/shw", "did you mean /show"),
        ("/etc/passwd", "unknown command /etc/passwd, see /?"),
    ],
)
def test_a_mistake_is_answered_and_changes_nothing(line: str, told: str) -> None:
    chat = made()
    assert told in said(chat, line)
    assert chat.sampling() == made().sampling()
    assert chat.messages == []


@pytest.mark.parametrize("line", ["/bye", "/exit", "/quit", " /bye "])
def test_leaving(line: str) -> None:
    assert made().feed(line) == Leave()


def test_help_names_every_command() -> None:
    assert said(made(), "/?") == said(made(), "/help") == HELP


def test_halves_of_characters_do_not_reach_the_tokenizer() -> None:
    chat = made()
    chat.feed("caf\udcc3")
    assert chat.messages[0]["content"] == "caf?"


def test_the_engine_takes_the_parameters_and_the_others_are_its_defaults() -> None:
    limits = Limits(vocab_size=10, context_length=4096, max_req_input_len=100)
    assert len(normalise(GenerateReqInput(text="x", sampling_params=made().sampling()), limits)) == 1
    defaults = SamplingParams()
    for leaf in CHAT_LEAVES:
        if leaf.name not in ("max_new_tokens", "temperature", "top_p", "sampling_seed", "stop"):
            assert getattr(defaults, leaf.name) == leaf.default


def test_the_flags_hide_no_setting_of_the_engine() -> None:
    assert set(Names(CHAT_LEAVES).all()).isdisjoint(Names((*ENGINE_LEAVES, *FILE_LEAVES)).all())
    assert ChatConfig().temperature == DEFAULTS["temperature"]


@given(
    st.lists(st.text(max_size=20) | st.sampled_from(['"""', "/clear", "/set parameter top_k 3", 'a"""']), max_size=12)
)
def test_whatever_is_typed_roles_take_turns(lines: list[str]) -> None:
    chat = made()
    for line in lines:
        if chat.feed(line) == Ask():
            chat.answered("x")
    roles = [message["role"] for message in chat.messages]
    assert roles == ["user", "assistant"] * (len(roles) // 2)
