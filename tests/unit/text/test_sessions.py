"""Tests of banyan.text.sessions."""

import pytest

from banyan.text.request import RequestError
from banyan.text.sessions import Sessions
from banyan.wire.request import SessionRef
from tests.unit.text.wiring import ints


def test_a_prompt_continues_its_session() -> None:
    sessions = Sessions()
    sessions.open("s", 10)
    whole = SessionRef(id="s")
    assert sessions.prompt(whole, ints(1, 2)) == ints(1, 2)
    sessions.keep(whole, ints(1, 2, 3))
    assert sessions.prompt(whole, ints(4)) == ints(1, 2, 3, 4)
    assert sessions.prompt(SessionRef(id="s", offset=1), ints(9)) == ints(1, 9)
    assert sessions.prompt(SessionRef(id="s", offset=0), ints(9)) == ints(9)


def test_a_branch_leaves_the_session_alone_unless_it_replaces_it() -> None:
    sessions = Sessions()
    sessions.open("s", 10)
    sessions.keep(SessionRef(id="s"), ints(1, 2, 3))
    sessions.keep(SessionRef(id="s", offset=1), ints(1, 9))
    assert sessions.prompt(SessionRef(id="s"), ints(4)) == ints(1, 2, 3, 4)
    sessions.keep(SessionRef(id="s", offset=1, replace=True), ints(1, 9))
    assert sessions.prompt(SessionRef(id="s"), ints(4)) == ints(1, 9, 4)


def test_refusals() -> None:
    sessions = Sessions(max_sessions=1)
    sessions.open("s", 3)
    sessions.keep(SessionRef(id="s"), ints(1, 2))
    with pytest.raises(RequestError, match="is open already"):
        sessions.open("s", 3)
    with pytest.raises(RequestError, match="1 sessions are open") as caught:
        sessions.open("t", 3)
    assert (caught.value.status, caught.value.retry_after_s) == (503, 1)
    with pytest.raises(RequestError, match="there is no session 't'"):
        sessions.prompt(SessionRef(id="t"), ints(1))
    with pytest.raises(RequestError, match="is 3; the session has 2 tokens"):
        sessions.prompt(SessionRef(id="s", offset=3), ints(1))
    with pytest.raises(RequestError, match="may have 3 tokens"):
        sessions.prompt(SessionRef(id="s"), ints(1, 2))
    sessions.close("s")
    assert len(sessions) == 0
    with pytest.raises(RequestError, match="there is no session 's'"):
        sessions.close("s")


def test_a_request_that_outlives_its_session_is_forgotten() -> None:
    sessions = Sessions()
    sessions.keep(SessionRef(id="gone"), ints(1))
    assert len(sessions) == 0
