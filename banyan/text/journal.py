"""Journal: what the front knows of every live request, so that nothing is lost when another process dies; pure.

Rows are fenced: only the current epoch counts, and only the position that comes next. After a loss a request enters
again with a higher epoch and the tokens that its client already has; `now` is always an argument.
"""

from typing import Final

import msgspec
import numpy as np

from banyan.poison import Tribunal
from banyan.text.entry import Accepted, AcceptedEmbedding, Actions, Counters, Entry, Failure
from banyan.text.request import Request
from banyan.text.rows import cut_hidden_states, cut_logprobs
from banyan.wire.base import front_of, i32, i64
from banyan.wire.control import PeerLost, PeerRestarted, ProbeReply, ToScheduler
from banyan.wire.output import BatchEmbeddingOut, BatchStrOut, Finished, FinishReason
from banyan.wire.request import AbortReq, ProbeReq, TokenizedGenerateReqInput

MAX_EPOCH: Final = 100  # a request that had to enter again so often will not get through
CRASH_MESSAGE: Final = "engine_crash_isolated: this request crashed the engine; all others go on"


class JournalFull(RuntimeError):
    """More requests than the journal may hold."""


class Journal:
    """The live requests of one front. Every method that returns Actions returns all that are due."""

    def __init__(self, front: int, num_replicas: int, probe_interval_s: float, capacity: int) -> None:
        self.counters = Counters()
        self.down = ""  # why nothing can be served any more, if so
        self._front = front
        self._interval_s = probe_interval_s
        self._capacity = capacity
        self._entries: dict[int, Entry] = {}
        self._tribunal = Tribunal(rank=front_of)  # the same order in all fronts
        self._tried_since = 0.0
        self._replicas = set(range(num_replicas))
        self._lost: set[int] = set()
        self._incarnations: dict[tuple[str, int], int] = {}
        self._held: dict[int, Entry] = {}
        self._aborts: list[tuple[int, int]] = []
        self._outbox: list[ToScheduler] = []
        self._failures: list[Failure] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, uid: int) -> bool:
        return uid in self._entries

    @property
    def replicas(self) -> set[int]:
        """The replicas that serve."""
        return self._replicas - self._lost

    # -- requests

    def open(self, request: Request, now: float) -> Actions:
        """Take up a request. It is sent at once, unless somebody is on trial who must crash alone."""
        if len(self._entries) >= self._capacity:
            raise JournalFull(f"{self._capacity} requests are live")
        entry = Entry(request=request, heard=now)
        self._entries[request.uid] = entry
        if self._tribunal.closed:
            self._hold(entry)
        else:
            self._outbox.append(request)
        return self.actions()

    def abort(self, uid: int, now: float) -> Actions:
        """Forget a request, and tell those who may still work on it."""
        entry = self._entries.get(uid)
        if entry is not None:
            self._aborts.append((uid, entry.epoch + 1))
            self._remove(uid, now)
        return self.actions()

    def actions(self) -> Actions:
        """Take what is due."""
        messages, self._outbox = self._outbox, []
        if self._aborts:
            messages.insert(0, _abort_message(self._aborts))
            self._aborts = []
        failures, self._failures = self._failures, []
        return Actions(messages, failures)

    # -- output

    def accept(self, message: BatchStrOut, now: float) -> list[Accepted]:
        """Fence the rows of a message. What is due because of them is left for actions()."""
        finished = {end.row: end for end in message.finished}
        logprobs = {part.row: part for part in message.logprobs}
        hidden = {part.row: part for part in message.hidden_states}
        entries, trying = self._entries, self._tribunal.active
        accepted: list[Accepted] = []
        at = 0
        for i, (uid, epoch, position, count, offset, text) in enumerate(
            zip(
                i64(message.uids).tolist(),
                i32(message.epochs).tolist(),
                i32(message.positions).tolist(),
                i32(message.counts).tolist(),
                i32(message.text_offsets).tolist(),
                message.texts,
                strict=True,
            )
        ):
            tokens = message.tokens[at : at + 4 * count]
            at += 4 * count
            entry = entries.get(uid)
            if entry is None or entry.epoch != epoch:
                self._fence(uid, epoch, entry, i in finished)
                continue
            row = Accepted(uid, tokens, text, entry.next == 0, finished.get(i), logprobs.get(i), hidden.get(i))
            if position != entry.next or offset != entry.text_length:
                fitted = self._fit(row, entry, position, offset, now)
                if fitted is None:
                    continue
                row = fitted
            entry.committed += row.tokens
            entry.next += len(row.tokens) // 4
            entry.text_length += len(row.text)
            entry.replica = message.replica
            entry.heard = now
            entry.behind = None
            accepted.append(row)
            if row.finished is not None:
                self._finish(uid, entry, row.finished, now)
            elif trying and row.tokens:
                # The next group may enter; or the last trial is over, and so may everybody.
                self._tribunal.progressed(uid)
                self._release(now)
        self.counters.accepted += len(accepted)
        return accepted

    def _fence(self, uid: int, epoch: int, entry: Entry | None, ends: bool) -> None:
        self.counters.fenced += 1
        if entry is None and not ends and front_of(uid) == self._front:
            self._aborts.append((uid, epoch + 1))  # the message that should have ended it was lost

    def _fit(self, row: Accepted, entry: Entry, position: int, offset: int, now: float) -> Accepted | None:
        """Cut off what is known already. None: nothing new, or something is missing in between."""
        skip = entry.next - position
        count = len(row.tokens) // 4
        if skip < 0 or offset > entry.text_length:
            self.counters.gaps += 1
            self._enter_again(entry, now)
            return None
        if skip >= count and row.finished is None and offset + len(row.text) <= entry.text_length:
            self.counters.duplicates += 1
            return None
        return Accepted(
            uid=row.uid,
            tokens=row.tokens[4 * skip :],
            text=row.text[entry.text_length - offset :],
            first=row.first,
            finished=row.finished,
            logprobs=cut_logprobs(row.logprobs, skip, count) if row.logprobs is not None else None,
            hidden_states=cut_hidden_states(row.hidden_states, skip, count) if row.hidden_states is not None else None,
        )

    def accept_embeddings(self, message: BatchEmbeddingOut, now: float) -> list[AcceptedEmbedding]:
        """Fence vectors. A row without an end says nothing."""
        uids, epochs = i64(message.uids).tolist(), i32(message.epochs).tolist()
        accepted = []
        for end in message.finished:
            uid, epoch = uids[end.row], epochs[end.row]
            entry = self._entries.get(uid)
            if entry is None or entry.epoch != epoch:
                self._fence(uid, epoch, entry, ends=True)
                continue
            width = 4 * message.dim
            failed = end.reason.kind in ("error", "abort")
            vector = b"" if failed else message.vectors[end.row * width : (end.row + 1) * width]
            accepted.append(AcceptedEmbedding(uid, vector, end))
            self._finish(uid, entry, end, now)
        self.counters.accepted += len(accepted)
        return accepted

    def _finish(self, uid: int, entry: Entry, end: Finished, now: float) -> None:
        # A stop string and an error may end a request behind the scheduler's back.
        if isinstance(end.reason.matched, str) or end.reason.kind == "error":
            self._aborts.append((uid, entry.epoch + 1))
        self._remove(uid, now)

    # -- losses

    def restarted(self, news: PeerRestarted, now: float) -> Actions:
        """A process died and has a successor: what it held enters again, suspects of the crash group by group."""
        key = (news.kind, news.index)
        if news.incarnation <= self._incarnations.get(key, -1):
            return self.actions()
        self._incarnations[key] = news.incarnation
        if news.kind == "scheduler":
            self._lost.discard(news.index)
        touched = self._touched_by(news)  # before anybody held back is let in
        suspects = i64(news.suspects).tolist()
        convicted = self._tribunal.crashed(suspects, i64(news.newcomers).tolist(), deliberate=news.deliberate)
        self._tried_since = now
        for uid in suspects:
            if front_of(uid) == self._front and uid not in self._entries:
                self._tribunal.ended(uid)
        for uid in convicted:
            if uid in self._entries:
                self.counters.convicted += 1
                self._fail(uid, FinishReason(kind="error", message=CRASH_MESSAGE, status=500), now)
        for entry in touched:
            if entry.request.uid in self._entries:
                self._enter_or_hold(entry, now)
        self._release(now)
        return self.actions()

    def lost(self, news: PeerLost, now: float) -> Actions:
        """A process is gone for good. Its requests go to another replica, or fail if there is none."""
        if news.kind == "scheduler":
            self._lost.add(news.index)
        if news.kind != "scheduler" or not self.replicas:
            self.down = f"the {news.kind} process is lost: {news.cause}"
            reason = FinishReason(kind="error", message=self.down, status=503)
            for uid in list(self._entries):
                self._fail(uid, reason, now)
        else:
            for entry in self._touched_by(news):
                self._enter_or_hold(entry, now)
        return self.actions()

    def _touched_by(self, news: PeerRestarted | PeerLost) -> list[Entry]:
        """List the requests that a dead process may have held."""
        if news.kind == "detokenizer":
            places = self._replicas | {-1}
        elif news.kind == "scheduler":
            places = {news.index, -1}
        else:
            places = {-1}  # a controller holds what it has not passed on yet
        return [entry for entry in self._entries.values() if entry.replica in places and not entry.held]

    def _enter_or_hold(self, entry: Entry, now: float) -> None:
        uid, tribunal = entry.request.uid, self._tribunal
        if uid in tribunal.quarantined or (tribunal.closed and uid not in tribunal.on_trial):
            self._hold(entry)
        else:
            self._enter_again(entry, now)

    def _hold(self, entry: Entry) -> None:
        entry.held = True
        self._held[entry.request.uid] = entry

    def _release(self, now: float) -> None:
        """Enter those whom the tribunal no longer holds back."""
        tribunal = self._tribunal
        for uid, entry in list(self._held.items()):
            if entry.held and uid not in tribunal.quarantined and (not tribunal.closed or uid in tribunal.on_trial):
                self._enter_again(entry, now)

    def _enter_again(self, entry: Entry, now: float) -> None:
        uid = entry.request.uid
        if entry.epoch >= MAX_EPOCH:
            message = f"this request was lost {MAX_EPOCH} times"
            self._fail(uid, FinishReason(kind="error", message=message, status=500), now)
            return
        entry.epoch += 1
        entry.heard, entry.asked, entry.behind = now, None, None
        entry.missing.clear()
        entry.replica, entry.held = -1, False
        self._held.pop(uid, None)
        self.counters.reentered += 1
        self._aborts.append((uid, entry.epoch))
        if isinstance(entry.request, TokenizedGenerateReqInput):
            again: Request = msgspec.structs.replace(entry.request, epoch=entry.epoch, committed=bytes(entry.committed))
        else:
            again = msgspec.structs.replace(entry.request, epoch=entry.epoch)
        self._outbox.append(again)

    def _fail(self, uid: int, reason: FinishReason, now: float) -> None:
        self._aborts.append((uid, self._entries[uid].epoch + 1))
        self._failures.append(Failure(uid, reason))
        self._remove(uid, now)

    def _remove(self, uid: int, now: float) -> None:
        self._entries.pop(uid).held = False
        self._held.pop(uid, None)
        if self._tribunal.active:
            self._tribunal.ended(uid)
            self._release(now)

    # -- silence

    def tick(self, now: float) -> Actions:
        """Ask after requests that have been silent for a while; enter again what is known to be lost."""
        self._clear_strangers(now)
        silent = []
        for uid, entry in list(self._entries.items()):
            if entry.held:
                continue
            if entry.behind is not None and now - entry.behind >= self._interval_s:
                self._enter_again(entry, now)
            elif now - max(entry.heard, entry.asked or entry.heard) >= self._interval_s:
                entry.asked = now
                entry.missing.clear()
                silent.append((uid, entry.epoch))
        if silent:
            self.counters.probes += len(silent)
            uids, epochs = zip(*silent, strict=True)
            self._outbox.append(
                ProbeReq(
                    front=self._front,
                    uids=np.array(uids, np.int64).tobytes(),
                    epochs=np.array(epochs, np.int32).tobytes(),
                )
            )
        return self.actions()

    def probe_reply(self, reply: ProbeReply, now: float) -> Actions:
        """Hear what a replica knows of requests that were asked after. A request that no replica knows was lost.

        Replies come the same way as output, so what was sent before a reply has arrived before it."""
        for uid, epoch, next_position in zip(
            i64(reply.uids).tolist(), i32(reply.epochs).tolist(), i32(reply.next).tolist(), strict=True
        ):
            entry = self._entries.get(uid)
            if entry is None or entry.held or entry.asked is None:
                continue
            if epoch == entry.epoch:
                entry.replica = reply.replica
                if next_position <= entry.next:
                    entry.behind = None
                elif entry.behind is None:
                    entry.behind = now
            else:
                entry.missing.add(reply.replica)
                if entry.missing >= self.replicas:
                    self._enter_again(entry, now)
        return self.actions()

    def _clear_strangers(self, now: float) -> None:
        """Other fronts' requests on trial: their progress cannot be seen here, only that time has passed."""
        if self._tribunal.active and now - self._tried_since >= self._interval_s:
            for uid in list(self._tribunal.on_trial):
                if front_of(uid) != self._front:
                    self._tribunal.ended(uid)
            self._tried_since = now
            self._release(now)


def _abort_message(aborts: list[tuple[int, int]]) -> AbortReq:
    uids, below = zip(*aborts, strict=True)
    return AbortReq(uids=np.array(uids, np.int64).tobytes(), below=np.array(below, np.int32).tobytes(), quiet=True)
