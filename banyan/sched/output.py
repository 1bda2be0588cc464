"""OutputPacker: what to tell the detokenizer after a commit: columns, and objects for rows that begin or end."""

from collections.abc import Iterator

import numpy as np

from banyan.sched.columns import Columns
from banyan.sched.req import Req
from banyan.wire.base import F32, I32
from banyan.wire.output import BatchEmbeddingOut, BatchTokenIDOut, Finished, FinishReason, HiddenStates, Opened
from banyan.wire.request import TokenizedGenerateReqInput

_CONTEXT = 8  # tokens before the output that decoding needs: a character is at most four bytes, a mark a few more


class OutputPacker:
    """Packs messages. Pure: what it returns is for somebody else to send."""

    def __init__(self, columns: Columns, replica: int) -> None:
        self._columns = columns
        self._replica = replica

    def pack(self, slots: I32, by_slot: list[Req | None], ended: list[Req], now: float) -> BatchTokenIDOut | None:
        """Pack the unsent tokens of the slots that are due, and the ends of requests that still have their row."""
        columns = self._columns
        due = slots[columns.known[slots] - columns.sent[slots] >= columns.interval[slots]]
        if ended:  # rows that end are due whatever their cadence
            rest = np.asarray([req.slot for req in ended], np.int32)
            due = np.concatenate((due[~np.isin(due, rest)], rest))
        if not len(due):
            return None
        start, stop = columns.sent[due], columns.known[due]
        counts = stop - start
        first = len(due) - len(ended)
        message = BatchTokenIDOut(
            replica=self._replica,
            uids=columns.uid[due].tobytes(),
            epochs=columns.epoch[due].tobytes(),
            positions=(start - columns.prompt_len[due]).tobytes(),
            counts=counts.tobytes(),
            tokens=self._gather(due, start, counts).tobytes(),
            opened=tuple(self._opened(due, by_slot)),
            finished=tuple(finished(first + i, req, int(columns.known[req.slot]), now) for i, req in enumerate(ended)),
            logprobs=tuple(
                req.logprobs.take(row)
                for row in np.flatnonzero(columns.special[due]).tolist()
                if (req := by_slot[due[row]]) is not None and req.logprobs is not None
            ),
            hidden_states=tuple(self._hidden(due, by_slot)),
        )
        columns.sent[due] = stop
        return message

    def _hidden(self, slots: I32, by_slot: list[Req | None]) -> Iterator[HiddenStates]:
        for row in np.flatnonzero(self._columns.special[slots]).tolist():
            req = by_slot[slots[row]]
            part = req.hidden.take(row) if req is not None and req.hidden is not None else None
            if part is not None:
                yield part

    def _gather(self, slots: I32, start: I32, counts: I32) -> I32:
        columns = self._columns
        if (counts == 1).all():  # the steady case: one token each
            return columns.tokens[slots, start]
        offsets = np.arange(counts.sum(), dtype=np.int32) - np.repeat(
            np.cumsum(counts, dtype=np.int32) - counts, counts
        )
        gathered: I32 = columns.tokens[np.repeat(slots, counts), np.repeat(start, counts) + offsets]
        return gathered

    def _opened(self, slots: I32, by_slot: list[Req | None]) -> list[Opened]:
        columns = self._columns
        fresh = slots[~columns.opened[slots]]
        columns.opened[fresh] = True
        messages = []
        for slot in fresh.tolist():
            req = by_slot[slot]
            if req is not None and not req.opened:
                req.opened = True
                messages.append(opened(req, columns.sequence(slot, req.prompt_len)))
        return messages

    def end_without_row(self, req: Req, now: float) -> BatchTokenIDOut:
        """Pack the end of a request that has no slot: it never ran, or it waited after a retraction."""
        unsent = req.tokens[req.sent :]
        position = req.sent - req.prompt_len
        req.sent = len(req.tokens)
        logprobs = (req.logprobs.take(0),) if req.logprobs is not None else ()
        hidden = req.hidden.take(0) if req.hidden is not None else None
        return BatchTokenIDOut(
            replica=self._replica,
            uids=np.asarray([req.uid], np.int64).tobytes(),
            epochs=np.asarray([req.ask.epoch], np.int32).tobytes(),
            positions=np.asarray([position], np.int32).tobytes(),
            counts=np.asarray([len(unsent)], np.int32).tobytes(),
            tokens=unsent.tobytes(),
            opened=() if req.opened else (opened(req, req.tokens[: req.prompt_len]),),
            finished=(finished(0, req, len(req.tokens), now),),
            logprobs=logprobs,
            hidden_states=() if hidden is None else (hidden,),
        )

    def embeddings(self, reqs: list[Req], vectors: list[F32], now: float) -> BatchEmbeddingOut:
        """Pack the vectors of finished embedding requests; a failed one has none."""
        dim = max((len(v) for v in vectors), default=0)
        rows = [v if len(v) == dim else np.zeros(dim, np.float32) for v in vectors]
        return BatchEmbeddingOut(
            replica=self._replica,
            uids=np.asarray([r.uid for r in reqs], np.int64).tobytes(),
            epochs=np.asarray([r.ask.epoch for r in reqs], np.int32).tobytes(),
            dim=dim,
            vectors=b"".join(np.asarray(v, np.float32).tobytes() for v in rows),
            finished=tuple(finished(i, r, r.prompt_len, now) for i, r in enumerate(reqs)),
        )


def opened(req: Req, prompt: I32) -> Opened:
    """Tell the detokenizer about a request."""
    ask = req.ask
    if not isinstance(ask, TokenizedGenerateReqInput):
        return Opened(uid=ask.uid, epoch=ask.epoch, rid=ask.rid, context=b"", committed=b"")
    sampling = ask.sampling
    return Opened(
        uid=ask.uid,
        epoch=ask.epoch,
        rid=ask.rid,
        context=prompt[-_CONTEXT:].tobytes(),
        committed=ask.committed,
        stop=sampling.stop,
        stop_regex=sampling.stop_regex,
        min_new_tokens=sampling.min_new_tokens,
        no_stop_trim=sampling.no_stop_trim,
        skip_special_tokens=sampling.skip_special_tokens,
        spaces_between_special_tokens=sampling.spaces_between_special_tokens,
        prompt_tokens=req.prompt_len,
        cached_tokens=req.cached_tokens,
    )


def finished(row: int, req: Req, known: int, now: float) -> Finished:
    """Say how a request ended and what it used."""
    admitted, first = req.admitted_at, req.first_token_at
    return Finished(
        row=row,
        reason=req.reason or FinishReason(kind="error", message="ended without a reason", status=500),
        prompt_tokens=req.prompt_len,
        cached_tokens=req.cached_tokens,
        completion_tokens=known - req.prompt_len,
        retractions=req.retractions,
        queue_s=(admitted if admitted >= 0 else now) - req.arrived_at,
        prefill_s=max(0.0, (first if first >= 0 else now) - admitted) if admitted >= 0 else 0.0,
        decode_s=max(0.0, now - first) if first >= 0 else 0.0,
    )
