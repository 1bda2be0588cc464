"""Sessions: the tokens of conversations, so that a request need only bring what is new.

The schedulers keep a session's KV; its tokens are here, so a scheduler that dies takes no conversation with it.
"""

from dataclasses import dataclass
from typing import Final

from banyan.text.request import RequestError
from banyan.wire.request import SessionRef

MAX_SESSIONS: Final = 4096


@dataclass(slots=True)
class Session:
    """A conversation so far, in int32 tokens, and how many it may have."""

    capacity: int
    tokens: bytes = b""


class Sessions:
    """Open sessions by id; bounded in number, each bounded in tokens."""

    def __init__(self, max_sessions: int = MAX_SESSIONS) -> None:
        self._max_sessions = max_sessions
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, name: str, capacity: int) -> None:
        """Open a session."""
        if name in self._sessions:
            raise RequestError(400, "session_id", f"session {name!r} is open already")
        if len(self._sessions) >= self._max_sessions:
            raise RequestError(
                503, "session_id", f"{self._max_sessions} sessions are open; close some", retry_after_s=1
            )
        self._sessions[name] = Session(capacity)

    def close(self, name: str) -> None:
        """Close a session."""
        if self._sessions.pop(name, None) is None:
            raise RequestError(400, "session_id", f"there is no session {name!r}")

    def prompt(self, reference: SessionRef, tokens: bytes) -> bytes:
        """Put what is new behind what the session holds, up to the offset asked for."""
        session = self._sessions.get(reference.id)
        if session is None:
            raise RequestError(400, "session_params.id", f"there is no session {reference.id!r}; open it first")
        length = len(session.tokens) // 4
        if reference.offset > length:
            raise RequestError(400, "session_params.offset", f"is {reference.offset}; the session has {length} tokens")
        kept = session.tokens if reference.offset < 0 else session.tokens[: 4 * reference.offset]
        if len(kept) + len(tokens) > 4 * session.capacity:
            raise RequestError(
                400, "session_params.id", f"the session may have {session.capacity} tokens; that is too few"
            )
        return kept + tokens

    def keep(self, reference: SessionRef, tokens: bytes) -> None:
        """A request has ended: its prompt and output are the session now, unless it was a branch off its middle."""
        session = self._sessions.get(reference.id)
        if session is not None and (reference.offset < 0 or reference.replace):
            session.tokens = tokens
