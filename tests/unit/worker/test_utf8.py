"""The automaton knows exactly where UTF-8 characters begin and end."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from banyan.worker import utf8


def one_by_one(state: int, tokens: list[int]) -> list[int]:
    states = []
    for token in tokens:
        state = int(utf8.AFTER[state, token])
        states.append(state)
    return states


@given(st.integers(0, utf8.NUM_STATES - 1), st.lists(st.integers(0, utf8.NUM_TOKENS - 1), max_size=40))
def test_scan_equals_one_token_at_a_time(state: int, tokens: list[int]) -> None:
    assert utf8.scan(state, np.array(tokens, np.int32)).tolist() == one_by_one(state, tokens)


@given(st.lists(st.sampled_from([0x41, 0x80, 0x9F, 0xA0, 0xBF, 0xC3, 0xE0, 0xE6, 0xED, 0xF0, 0xF1, 0xF4]), max_size=40))
def test_scan_equals_one_token_at_a_time_on_broken_text(tokens: list[int]) -> None:
    assert utf8.scan(utf8.WHOLE, np.array(tokens, np.int32)).tolist() == one_by_one(utf8.WHOLE, tokens)


@given(st.text("a\x7f\x80é\u07ff\u0800中\ud7ff\ue000\uffff\U00010000😀\U0010ffff", max_size=20))
def test_text_is_valid_all_along_and_whole_at_character_borders(text: str) -> None:
    state, borders = utf8.WHOLE, []
    for byte in text.encode():
        assert utf8.VALID[state, byte]
        state = int(utf8.AFTER[state, byte])
        borders.append(state == utf8.WHOLE)
    assert borders == [n + 1 == size for size in (len(c.encode()) for c in text) for n in range(size)]


@given(st.binary(max_size=12))
def test_valid_says_what_the_codec_says(data: bytes) -> None:
    state, valid = utf8.WHOLE, True
    for byte in data:
        valid = valid and bool(utf8.VALID[state, byte])
        state = int(utf8.AFTER[state, byte])
    try:
        data.decode()
    except UnicodeDecodeError:
        assert not (valid and state == utf8.WHOLE)
    else:
        assert valid
        assert state == utf8.WHOLE
