"""DetokenizerManager: BatchTokenIDOut in, BatchStrOut out, for each front its own; pure.

A stop string ends a request here, for only here is there text. Rows of requests that are not known are dropped: the
front asks after requests that fall silent, and enters them again.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec
import numpy as np

from banyan.text.incremental import DecodeStatus, IncrementalDecoder
from banyan.text.rows import Row, pack
from banyan.text.stops import StopMatcher, trim_eos
from banyan.text.tokenizer import Tokenizer
from banyan.text.tracing import Tracing
from banyan.wire.base import FRONT_SHIFT, front_of, i32, i64
from banyan.wire.control import ToDetokenizer, ToFront
from banyan.wire.output import BatchEmbeddingOut, BatchStrOut, BatchTokenIDOut, Finished, FinishReason, Opened

CAPACITY: Final = 1 << 15  # requests whose text can be under way at once
NOWHERE: Final = 2**31 - 1  # text offset of a row that has no text: a gap to its front, whatever that has

Addressed = tuple[int, ToFront]
K = TypeVar("K")
V = TypeVar("V")


class LimitedCapacityDict(OrderedDict[K, V]):
    """Holds a limited number of entries. What had to go when a new one came is in `evicted` until taken."""

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity
        self.evicted: list[tuple[K, V]] = []

    def __setitem__(self, key: K, value: V) -> None:
        if key not in self and len(self) >= self.capacity:
            self.evicted.append(self.popitem(last=False))
        super().__setitem__(key, value)


@dataclass(slots=True)
class Decoding:
    """One request that is being decoded."""

    opened: Opened
    status: DecodeStatus
    next: int  # the output position that must come next
    num_sent: int = 0  # characters sent so far
    stops: StopMatcher | None = None


class Work(msgspec.Struct, gc=False):
    """One row on its way to text."""

    row: Row
    decoding: Decoding
    num_taken: int = 0  # tokens of the row that are decoded
    last: bool = False  # the request ends with what is decoded now
    done: bool = False


@dataclass(slots=True)
class Counters:
    """Rows decoded, and what became of those that could not be."""

    rows: int = 0
    stops: int = 0  # requests that a stop string ended
    dropped: int = 0  # of a request or an epoch that is not known
    duplicates: int = 0
    gaps: int = 0
    evicted: int = 0


class DetokenizerManager:
    """Decodes rows of all requests, one call of the tokenizer per message; sends nothing itself."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        tracer: Tracing,
        capacity: int = CAPACITY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counters = Counters()
        self._tokenizer = tokenizer
        self._decoder = IncrementalDecoder(tokenizer)
        self._tracer = tracer
        self._clock = clock
        self.decode_status: LimitedCapacityDict[int, Decoding] = LimitedCapacityDict(capacity)

    def process(self, message: ToDetokenizer) -> list[Addressed]:
        """Turn a message into those that go on, each with the number of the front that gets it."""
        if isinstance(message, BatchTokenIDOut):
            return self._process_tokens(message)
        if isinstance(message, BatchEmbeddingOut):
            return _split_embeddings(message)
        return [(message.front, message)]

    def _process_tokens(self, message: BatchTokenIDOut) -> list[Addressed]:
        stops = self.counters.stops
        self._open(message.opened)
        works, lost = self._fence(message)
        self._decode(works, self._silent_among(message))
        rows = [work.row for work in works]
        self.counters.rows += len(rows)
        if len(rows) * 8 == len(message.uids) and self.counters.stops == stops and not self.decode_status.evicted:
            fronts = i64(message.uids) >> FRONT_SHIFT
            num_tokens = sum([len(row.tokens) for row in rows])
            if rows and num_tokens * 4 == len(message.tokens) and (fronts == fronts[0]).all():
                return [(int(fronts[0]), _with_texts(message, rows))]  # nearly always: columns stay as they are
        by_front: dict[int, list[Row]] = {}
        for row in rows + lost + self._ends_of_evicted():
            by_front.setdefault(front_of(row.uid), []).append(row)
        return [(front, pack(message.replica, rows)) for front, rows in by_front.items()]

    # -- who is known

    def _open(self, opened: tuple[Opened, ...]) -> None:
        """Begin requests, or begin them again after the tokens that their fronts already have."""
        fresh = []
        for one in opened:
            known = self.decode_status.get(one.uid)
            if known is not None and known.status.vid >= one.epoch:
                continue  # an echo: to begin again would lose what has been decoded since
            tokens = i32(one.context)
            shown = self._tokenizer.prints(tokens, skip_special_tokens=one.skip_special_tokens)
            decoding = Decoding(
                opened=one,
                status=self._decoder.start(one.epoch, tokens[shown].tolist()),
                next=len(one.committed) // 4,
                stops=StopMatcher(one.stop, one.stop_regex) if one.stop or one.stop_regex else None,
            )
            self.decode_status.pop(one.uid, None)  # to the end: the oldest is evicted first
            self.decode_status[one.uid] = decoding
            fresh.append(decoding)
            if self._tracer.enabled:
                self._tracer.event("DetokenizerManager.open", one.uid, self._clock())
        self._replay([decoding for decoding in fresh if decoding.opened.committed])

    def _replay(self, resumed: list[Decoding]) -> None:
        """Bring requests to where they were after their committed tokens. Those held no stop, or they had ended."""
        pending = []
        for decoding in resumed:
            tokens = i32(decoding.opened.committed)
            shown = self._tokenizer.prints(tokens, skip_special_tokens=decoding.opened.skip_special_tokens)
            pending.append((decoding, tokens[shown].tolist()))
        stride, at = self._decoder.stride, 0
        while pending:
            for decoding, tokens in pending:
                decoding.status.decode_ids += tokens[at : at + stride]
            added = self._decoder.advance([decoding.status for decoding, _ in pending], [False] * len(pending))
            for (decoding, _), text in zip(pending, added, strict=True):
                if decoding.stops is not None:
                    decoding.stops.feed(text, armed=False)
            at += stride
            pending = [(decoding, tokens) for decoding, tokens in pending if at < len(tokens)]
        for decoding in resumed:
            self._take_printable(decoding)

    def _fence(self, message: BatchTokenIDOut) -> tuple[list[Work], list[Row]]:
        """Pair rows with their requests. Also returns the rows after a gap: these go on without text, so that the
        front sees the gap."""
        finished = {end.row: end for end in message.finished}
        logprobs = {part.row: part for part in message.logprobs}
        hidden = {part.row: part for part in message.hidden_states}
        tokens = i32(message.tokens).tolist()
        known, works, lost = self.decode_status, [], []
        start = 0
        for i, (uid, epoch, position, count) in enumerate(
            zip(
                i64(message.uids).tolist(),
                i32(message.epochs).tolist(),
                i32(message.positions).tolist(),
                i32(message.counts).tolist(),
                strict=True,
            )
        ):
            row_tokens = tokens[start : start + count]
            start += count
            decoding = known.get(uid)
            if decoding is None or decoding.status.vid != epoch:
                self.counters.dropped += 1
                continue
            row = Row(
                uid,
                epoch,
                position,
                row_tokens,
                finished=finished.get(i),
                logprobs=logprobs.get(i),
                hidden_states=hidden.get(i),
            )
            if position < decoding.next:
                row.cut(decoding.next - position, len(row_tokens))
                if not row.tokens and row.finished is None:
                    self.counters.duplicates += 1
                    continue
            elif position > decoding.next:
                self.counters.gaps += 1
                del known[uid]
                row.text_offset = NOWHERE
                lost.append(row)
                continue
            decoding.next += len(row.tokens)
            works.append(Work(row, decoding))
        return works, lost

    # -- text

    def _silent_among(self, message: BatchTokenIDOut) -> frozenset[int]:
        """Find the tokens of a message that print nothing, or may not: a few of many, as a rule none."""
        tokens = i32(message.tokens)
        return frozenset(tokens[~self._tokenizer.prints(tokens)].tolist())

    def _decode(self, works: list[Work], silent: frozenset[int]) -> None:
        """Give every row its text. A row is decoded at once, or token by token where a stop string may be in it."""
        pending = works
        while pending:
            for work in pending:
                self._take_tokens(work, silent)
            statuses = [work.decoding.status for work in pending]
            added = self._decoder.advance(statuses, [work.last for work in pending])
            for work, text in zip(pending, added, strict=True):
                self._take_text(work, text)
            pending = [work for work in pending if not work.done]

    def _take_tokens(self, work: Work, silent: frozenset[int]) -> None:
        """Feed the next tokens of a row."""
        row, decoding = work.row, work.decoding
        take = 1 if decoding.stops is not None else self._decoder.stride
        tokens = row.tokens[work.num_taken : work.num_taken + take]
        work.num_taken += len(tokens)
        if row.finished is not None and work.num_taken == len(row.tokens):
            work.last = True
            tokens = trim_eos(tokens, row.finished.reason, decoding.opened.no_stop_trim)
        if not silent.isdisjoint(tokens):
            ids = np.array(tokens, np.int32)
            shown = self._tokenizer.prints(ids, skip_special_tokens=decoding.opened.skip_special_tokens)
            tokens = ids[shown].tolist()
        decoding.status.decode_ids += tokens

    def _take_text(self, work: Work, text: str) -> None:
        """Look for stops in the new text; when the row is done, decide what of its text goes out."""
        row, decoding = work.row, work.decoding
        status = decoding.status
        if decoding.stops is not None and text:
            armed = row.position + work.num_taken >= decoding.opened.min_new_tokens
            match = decoding.stops.feed(text, armed=armed)
            if match is not None:
                end = len(status.decoded_text) - len(text) + match.end
                status.decoded_text = status.decoded_text[:end]
                self._stop(work, status.decoded_text[end - match.length :])
                return
        if work.num_taken < len(row.tokens):
            return
        work.done = True
        row.text_offset = decoding.num_sent
        if work.last:
            row.text = status.decoded_text
            self._close(row.uid)
        else:
            row.text = self._take_printable(decoding)

    def _take_printable(self, decoding: Decoding) -> str:
        """Take the text that can go out: all but what may be the beginning of a stop."""
        status = decoding.status
        text, held = status.decoded_text, decoding.stops.num_held if decoding.stops is not None else 0
        if held:
            status.decoded_text = text[len(text) - held :]
            text = text[: len(text) - held]
        else:
            status.decoded_text = ""
        decoding.num_sent += len(text)
        return text

    def _stop(self, work: Work, matched: str) -> None:
        """End a request at a stop string: cut tokens, text and account after the token that completed it."""
        row, decoding = work.row, work.decoding
        opened = decoding.opened
        self.counters.stops += 1
        reason = FinishReason(kind="stop", matched=matched)
        completion_tokens = row.position + work.num_taken
        if row.finished is None:
            row.finished = Finished(
                row=0,
                reason=reason,
                prompt_tokens=opened.prompt_tokens,
                cached_tokens=opened.cached_tokens,
                completion_tokens=completion_tokens,
            )
        else:
            row.finished = msgspec.structs.replace(row.finished, reason=reason, completion_tokens=completion_tokens)
        row.cut(0, work.num_taken)
        row.text_offset = decoding.num_sent
        row.text = trim_eos(decoding.status.decoded_text, reason, opened.no_stop_trim)
        work.done = True
        self._close(row.uid)

    def _close(self, uid: int) -> None:
        self.decode_status.pop(uid, None)
        if self._tracer.enabled:
            self._tracer.event("DetokenizerManager.finish", uid, self._clock())

    def _ends_of_evicted(self) -> list[Row]:
        """Tell the fronts of requests that had to go."""
        evicted, self.decode_status.evicted = self.decode_status.evicted, []
        self.counters.evicted += len(evicted)
        reason = FinishReason(
            kind="error",
            message=f"the detokenizer holds {self.decode_status.capacity} requests, and this one was the oldest",
            status=503,
        )
        return [
            Row(
                uid=uid,
                epoch=decoding.status.vid,
                position=decoding.next,
                tokens=[],
                text_offset=decoding.num_sent,
                finished=Finished(
                    row=0,
                    reason=reason,
                    prompt_tokens=decoding.opened.prompt_tokens,
                    cached_tokens=decoding.opened.cached_tokens,
                    completion_tokens=decoding.next,
                ),
            )
            for uid, decoding in evicted
        ]


def _with_texts(message: BatchTokenIDOut, rows: list[Row]) -> BatchStrOut:
    """Add texts to a message whose columns stay as they are."""
    return BatchStrOut(
        replica=message.replica,
        uids=message.uids,
        epochs=message.epochs,
        positions=message.positions,
        counts=message.counts,
        tokens=message.tokens,
        texts=tuple([row.text for row in rows]),
        text_offsets=np.array([row.text_offset for row in rows], np.int32).tobytes(),
        finished=message.finished,
        logprobs=message.logprobs,
        hidden_states=message.hidden_states,
    )


def _split_embeddings(message: BatchEmbeddingOut) -> list[Addressed]:
    """Give each front its rows."""
    fronts = i64(message.uids) >> FRONT_SHIFT
    present = np.unique(fronts).tolist()
    if len(present) == 1:
        return [(present[0], message)]
    ends = {end.row: end for end in message.finished}
    parts: list[Addressed] = []
    for front in present:
        rows = np.flatnonzero(fronts == front)
        part = BatchEmbeddingOut(
            replica=message.replica,
            uids=i64(message.uids)[rows].tobytes(),
            epochs=i32(message.epochs)[rows].tobytes(),
            dim=message.dim,
            vectors=np.frombuffer(message.vectors, np.float32).reshape(len(fronts), message.dim)[rows].tobytes(),
            finished=tuple(
                msgspec.structs.replace(ends[row], row=i) for i, row in enumerate(rows.tolist()) if row in ends
            ),
        )
        parts.append((front, part))
    return parts
