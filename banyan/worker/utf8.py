"""Where a byte sequence stands inside a UTF-8 character: a small automaton, one token or many at a time."""

import numpy as np
import numpy.typing as npt

from banyan.wire.base import I32, Bool

U8 = npt.NDArray[np.uint8]

NUM_TOKENS = 259  # 256 bytes and three special tokens

# States. A number of open bytes is not enough: after four lead bytes the next byte may not be just any continuation.
WHOLE, OPEN_1, OPEN_2, OPEN_3, AFTER_E0, AFTER_ED, AFTER_F0, AFTER_F4 = range(8)
NUM_STATES = 8

# state -> first and last byte that may follow, and the state it leads to
_OPEN = {
    OPEN_1: (0x80, 0xBF, WHOLE),
    OPEN_2: (0x80, 0xBF, OPEN_1),
    OPEN_3: (0x80, 0xBF, OPEN_2),
    AFTER_E0: (0xA0, 0xBF, OPEN_1),
    AFTER_ED: (0x80, 0x9F, OPEN_1),
    AFTER_F0: (0x90, 0xBF, OPEN_2),
    AFTER_F4: (0x80, 0x8F, OPEN_2),
}
# first and last lead byte -> state after it
_LEADS = (
    (0xC2, 0xDF, OPEN_1),
    (0xE0, 0xE0, AFTER_E0),
    (0xE1, 0xEC, OPEN_2),
    (0xED, 0xED, AFTER_ED),
    (0xEE, 0xEF, OPEN_2),
    (0xF0, 0xF0, AFTER_F0),
    (0xF1, 0xF3, OPEN_3),
    (0xF4, 0xF4, AFTER_F4),
)
# No state outlives this many tokens: whatever it was, four continuation bytes close it, and any other byte resets it.
_MEMORY = 4


def _transitions() -> tuple[U8, Bool]:
    leads = np.full(NUM_TOKENS, WHOLE, np.uint8)  # also the answer to a byte that breaks a character off
    for first, last, state in _LEADS:
        leads[first : last + 1] = state
    after = np.tile(leads, (NUM_STATES, 1))
    valid = np.zeros((NUM_STATES, NUM_TOKENS), np.bool_)
    valid[WHOLE] = leads != WHOLE
    valid[WHOLE, :0x80] = True
    valid[WHOLE, 0x100:] = True
    for state, (first, last, then) in _OPEN.items():
        after[state, first : last + 1] = then
        valid[state, first : last + 1] = True
    return after, valid


AFTER, VALID = _transitions()  # [state, token]: the state after a token, and whether the text stays valid
AFTER.flags.writeable = False
VALID.flags.writeable = False


def scan(state: int, tokens: I32) -> U8:
    """Return the state after each token, from the state before the first."""
    result = np.zeros(len(tokens), np.uint8)
    before = np.zeros(len(tokens), np.uint8)
    for _ in range(_MEMORY):
        before[:1] = state
        before[1:] = result[:-1]
        result = AFTER[before, tokens]
    return result
