"""Collector: what a detokenizer would get, checked for order and kept by request."""

from dataclasses import dataclass, field

from banyan.wire.base import F32, f32, i32, i64
from banyan.wire.control import ControlReply, ProbeReply, ToDetokenizer
from banyan.wire.output import BatchEmbeddingOut, BatchTokenIDOut, Finished, FinishReason, Logprobs


@dataclass(slots=True)
class Heard:
    """All that was said about one incarnation of a request."""

    start: int  # output position of its first token
    tokens: list[int] = field(default_factory=list)
    reason: FinishReason | None = None
    finished: Finished | None = None
    logprobs: list[float] = field(default_factory=list)
    prompt_logprobs: list[float] = field(default_factory=list)
    logprob_rows: list[Logprobs] = field(default_factory=list)
    hidden_states: list[F32] = field(default_factory=list)
    vector: F32 | None = None


class Collector:
    """Asserts that positions follow each other, that `Opened` comes first, and that nothing follows an end."""

    def __init__(self) -> None:
        self.heard: dict[tuple[int, int], Heard] = {}
        self.replies: list[ControlReply | ProbeReply] = []

    def take(self, message: ToDetokenizer) -> None:
        """Take one message."""
        match message:
            case BatchTokenIDOut():
                self._tokens(message)
            case BatchEmbeddingOut():
                self._vectors(message)
            case _:
                self.replies.append(message)

    def tokens(self, uid: int, epoch: int = 0) -> list[int]:
        """Give the tokens heard of a request."""
        heard = self.heard.get((uid, epoch))
        return heard.tokens if heard is not None else []

    def reason(self, uid: int, epoch: int = 0) -> FinishReason | None:
        """Give the end of a request, if it has ended."""
        heard = self.heard.get((uid, epoch))
        return heard.reason if heard is not None else None

    def _tokens(self, message: BatchTokenIDOut) -> None:
        for opened in message.opened:
            key = (opened.uid, opened.epoch)
            assert key not in self.heard, f"{key} was opened twice"
            self.heard[key] = Heard(start=len(i32(opened.committed)))
        keys = list(zip(i64(message.uids).tolist(), i32(message.epochs).tolist(), strict=True))
        assert len(set(keys)) == len(keys), "two rows for one request"
        tokens, end = i32(message.tokens).tolist(), 0
        for key, position, count in zip(keys, i32(message.positions), i32(message.counts), strict=True):
            heard = self.heard[key]
            assert heard.reason is None, f"{key} goes on after its end"
            assert position == heard.start + len(heard.tokens), f"{key}: position {position} is out of order"
            heard.tokens += tokens[end : end + count]
            end += int(count)
        assert end == len(tokens)
        for row in message.logprobs:
            self.heard[keys[row.row]].logprobs += f32(row.values).tolist()
            self.heard[keys[row.row]].prompt_logprobs += f32(row.prompt_values).tolist()
            self.heard[keys[row.row]].logprob_rows.append(row)
        for part in message.hidden_states:
            self.heard[keys[part.row]].hidden_states += list(f32(part.values).reshape(-1, part.dim))
        for finished in message.finished:
            heard = self.heard[keys[finished.row]]
            heard.reason, heard.finished = finished.reason, finished
            assert finished.completion_tokens == heard.start + len(heard.tokens)

    def _vectors(self, message: BatchEmbeddingOut) -> None:
        vectors = f32(message.vectors).reshape(-1, message.dim) if message.dim else None
        for row, uid in enumerate(i64(message.uids).tolist()):
            key = (uid, int(i32(message.epochs)[row]))
            assert key not in self.heard, f"two vectors for {key}"
            end = next(f for f in message.finished if f.row == row)
            vector = None if vectors is None else vectors[row]
            self.heard[key] = Heard(0, reason=end.reason, finished=end, vector=vector)
