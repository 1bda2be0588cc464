"""DecodeStatus: token ids to printable text as it grows, in linear time; pure.

Text after k tokens is a function of the tokens alone, however they were cut into chunks: the decode of context and
tokens, less the context, less a trailing run of U+FFFD (a character whose bytes are not all there) until the end.

    decode_ids:  ...... surr_offset ......... read_offset ......... end
                         | surrounding text   | new text            |
                         | settled before     | what this step adds |
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from banyan.text.tokenizer import Tokenizer

REPLACEMENT: Final = "\ufffd"
# New text that stays unprintable for so many tokens is not a character on its way (those have at most 4 bytes), so the
# window moves on. Without this a stream of broken bytes would cost quadratic time.
MAX_WINDOW: Final = 32


def find_printable_text(text: str) -> str:
    """Leave out a trailing run of U+FFFD: more tokens may complete the character."""
    return text.rstrip(REPLACEMENT)


@dataclass(slots=True)
class DecodeStatus:
    """How far one request's output is decoded. Only the end of its tokens and text is kept."""

    vid: int  # which incarnation of the request this is: its epoch
    decoded_text: str = ""  # decoded and not sent yet; whoever sends text takes it from here
    decode_ids: list[int] = field(default_factory=list)
    surr_offset: int = 0
    read_offset: int = 0
    num_handed: int = 0  # characters of the new text that are part of decoded_text already
    num_owed: int = 0  # U+FFFD before read_offset that were never handed out: they would have ended the text
    num_open: int = 0  # 1 if the surrounding text ends in a U+FFFD that the next tokens may still turn into a character


class IncrementalDecoder:
    """Advances many requests with one call of the tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        # Elsewhere than in byte-level vocabularies a token's text depends on its neighbours: then the text of the
        # token before is decoded along, and tokens must be fed one by one to give the same text for every chunking.
        self._overlaps = not tokenizer.is_byte_level
        self.stride: Final = 1 if self._overlaps else 1 << 31  # tokens that may be fed between two calls of advance

    def start(self, vid: int, context: Iterable[int]) -> DecodeStatus:
        """Begin after the given end of the prompt."""
        ids = list(context)
        return DecodeStatus(vid=vid, decode_ids=ids, read_offset=len(ids))

    def advance(self, statuses: Sequence[DecodeStatus], final: Sequence[bool]) -> list[str]:
        """Return the text that the ids appended since the last call add to each, also to its decoded_text.

        Special tokens that print nothing must not be appended. After a final call a status is spent."""
        windows = [status.decode_ids[status.surr_offset :] for status in statuses]
        surrounded = [i for i, status in enumerate(statuses) if status.read_offset > status.surr_offset]
        windows += [statuses[i].decode_ids[statuses[i].surr_offset : statuses[i].read_offset] for i in surrounded]
        texts = self._tokenizer.decode_batch(windows, skip_special_tokens=False)
        for i, surrounding in zip(surrounded, texts[len(statuses) :], strict=True):
            texts[i] = texts[i][len(surrounding) - statuses[i].num_open :]
        added = []
        for status, text, last in zip(statuses, texts, final, strict=False):
            whole = REPLACEMENT * status.num_owed + text if status.num_owed else text
            if last:
                new = whole[status.num_handed :]
            elif whole and whole[-1] != REPLACEMENT:
                new = whole[status.num_handed :]
                self._commit(status)
            else:
                new = self._hand_out_printable(status, whole)
            status.decoded_text += new
            added.append(new)
        return added

    def _commit(self, status: DecodeStatus) -> None:
        """All text so far is final: start the next window here."""
        end = len(status.decode_ids)
        status.surr_offset = status.read_offset if self._overlaps else end
        status.read_offset = end
        status.num_handed = status.num_owed = status.num_open = 0
        if status.surr_offset > MAX_WINDOW:  # now and then, so that dropping the front of a list costs little
            del status.decode_ids[: status.surr_offset]
            status.read_offset -= status.surr_offset
            status.surr_offset = 0

    def _hand_out_printable(self, status: DecodeStatus, whole: str) -> str:
        printable = find_printable_text(whole)
        new = printable[status.num_handed :]
        status.num_handed = max(status.num_handed, len(printable))
        if len(status.decode_ids) - status.read_offset > MAX_WINDOW:
            # All but the last U+FFFD are final, and a window of this size holds all bytes of the last one.
            num_open = int(whole.endswith(REPLACEMENT))
            num_owed = max(0, len(whole) - num_open - status.num_handed)
            del status.decode_ids[: status.read_offset]
            status.surr_offset, status.read_offset = 0, len(status.decode_ids)
            status.num_handed, status.num_owed, status.num_open = 0, num_owed, num_open
        return new
