"""PullChannel and PushChannel: typed one-way queues between processes. The only file that knows zmq.

Nothing here raises because of a peer: what cannot be decoded is counted and dropped, what cannot be queued is
counted and dropped, and the recovery of requests heals both. Addresses are `ipc://` paths in a directory that only
this user can enter: whoever can connect is us. A channel belongs to one thread.
"""

import asyncio
import contextlib
import logging
import math
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import zmq

from banyan.obs.log import Throttle
from banyan.wire.base import Message
from banyan.wire.codec import Codec, DecodeError, EncodeError, Frames

T = TypeVar("T", bound=Message)

CAPACITY: Final = 16_384  # messages that one end holds; with columns a message is a whole batch of rows
DRAIN_LIMIT: Final = 1_024  # messages taken at once, so that a flood cannot keep a loop from its other work
MAX_PATH_BYTES: Final = 107  # sun_path of a unix socket is 108 bytes with its final zero
RECONNECT_MS: Final = 20
SCHEME: Final = "ipc://"


class ChannelError(RuntimeError):
    """An address that cannot be used, with the reason and what to do."""


class PullChannel(Generic[T]):
    """The receiving end: binds, and owns the socket file."""

    def __init__(self, address: str, codec: Codec[T], capacity: int = CAPACITY) -> None:
        self.bad_frames = 0
        self._codec = codec
        self._log = logging.getLogger(__name__)
        self._throttle = Throttle()
        self.more = False  # the last drain stopped at its limit, so more may be waiting
        self._listener: _Listener[T] | None = None
        self._path = private_path(address)
        self._socket = _open(zmq.PULL)
        self._socket.setsockopt(zmq.RCVHWM, capacity)
        # Up to here an oversized message is received, counted and dropped. Beyond, libzmq drops the connection before
        # it takes the memory.
        self._socket.setsockopt(zmq.MAXMSGSIZE, 4 * codec.max_bytes)
        try:
            self._socket.bind(address)
        except zmq.ZMQError as error:
            self._socket.close()
            raise ChannelError(f"cannot bind {address}: {error}") from error
        self._inode = self._path.stat().st_ino

    def wait(self, timeout_s: float, *others: "PullChannel[Any]") -> bool:
        """Block until this channel or one of the others may have something to drain; False: the time is over."""
        poller = zmq.Poller()
        for channel in (self, *others):
            poller.register(channel._socket, zmq.POLLIN)
        return bool(poller.poll(math.ceil(timeout_s * 1000)))

    def drain(self, limit: int = DRAIN_LIMIT) -> list[T]:
        """Take what has arrived, at most `limit` messages; never blocks, never raises for what a peer sent."""
        return [message for message, _ in self.drain_raw(limit)]

    def drain_raw(self, limit: int = DRAIN_LIMIT) -> list[tuple[T, Frames]]:
        """Like drain, with the frames each message came in, for those who pass it on with send_raw."""
        taken: list[tuple[T, Frames]] = []
        for _ in range(limit):
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                self.more = False
                return taken
            try:
                taken.append((self._codec.decode(frames), frames))
            except DecodeError as error:
                self._refuse(error)
        self.more = True
        return taken

    def attach(self, deliver: Callable[[list[T]], None]) -> None:
        """Hand what arrives to `deliver`, in batches, on the running event loop, until detach or close."""
        self.detach()
        self._listener = _Listener(self, self._socket.fileno(), deliver)

    def detach(self) -> None:
        """Stop handing out what arrives."""
        if self._listener is not None:
            self._listener.stop()
            self._listener = None

    def close(self) -> None:
        """Drop what is queued and remove the socket file, unless a successor has bound it since."""
        if self._socket.closed:
            return
        self.detach()
        self._socket.close()
        with contextlib.suppress(FileNotFoundError):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()

    def _refuse(self, error: DecodeError) -> None:
        self.bad_frames += 1
        if count := self._throttle.allow(time.monotonic()):
            self._log.warning("%s: %d bad messages dropped, the last: %s", self._path.name, count, error)


class _Listener(Generic[T]):
    """Drains a channel on an event loop. Its descriptor reports changes, not presence: after a report all must be
    drained, in turns if it is a lot, and what was there before is not reported at all."""

    def __init__(self, channel: PullChannel[T], descriptor: int, deliver: Callable[[list[T]], None]) -> None:
        self._channel = channel
        self._descriptor = descriptor
        self._deliver = deliver
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._on_report)
        self._next: asyncio.Handle | None = self._loop.call_soon(self._on_turn)

    def stop(self) -> None:
        if self._next is not None:
            self._next.cancel()
        if not self._loop.is_closed():
            self._loop.remove_reader(self._descriptor)

    def _on_report(self) -> None:
        if self._next is None:  # else a turn is due anyway
            self._drain()

    def _on_turn(self) -> None:
        self._next = None
        self._drain()

    def _drain(self) -> None:
        batch = self._channel.drain()
        if self._channel.more:
            self._next = self._loop.call_soon(self._on_turn)  # before deliver, which may raise
        if batch:
            self._deliver(batch)


class PushChannel(Generic[T]):
    """The sending end: connects, before or after the other end binds, and never blocks."""

    def __init__(self, address: str, codec: Codec[T], capacity: int = CAPACITY) -> None:
        self.dropped = 0
        self._address = address
        self._codec = codec
        self._capacity = capacity
        self._log = logging.getLogger(__name__)
        self._throttle = Throttle()
        self._path = private_path(address)
        self._socket = self._connect()

    def send(self, message: T) -> bool:
        """Queue a message. False: it was too large or the queue is full; it is dropped and counted."""
        try:
            frames = self._codec.encode(message)
        except EncodeError as error:
            self._drop(str(error))
            return False
        return self.send_raw(frames)

    def send_raw(self, frames: Frames) -> bool:
        """Queue frames as they are."""
        try:
            self._socket.send_multipart(frames, zmq.NOBLOCK)
        except zmq.Again:
            self._drop("the queue is full")
            return False
        return True

    def reconnect(self) -> None:
        """Start afresh after the peer was replaced: what is queued was for its predecessor and is dropped."""
        self._socket.close()
        self._socket = self._connect()

    def close(self) -> None:
        """Drop what is queued and disconnect."""
        self._socket.close()

    def _connect(self) -> "zmq.Socket[bytes]":
        socket = _open(zmq.PUSH)
        socket.setsockopt(zmq.SNDHWM, self._capacity)
        socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
        socket.connect(self._address)
        return socket

    def _drop(self, reason: str) -> None:
        self.dropped += 1
        if count := self._throttle.allow(time.monotonic()):
            self._log.warning("%s: %d messages not sent, the last because %s", self._path.name, count, reason)


def private_path(address: str) -> Path:
    """Return the path of an ipc address after checking that only this user can reach it."""
    if not address.startswith(SCHEME + "/"):  # this also refuses abstract names, which no directory guards
        raise ChannelError(f"address {address!r} is not ipc:// with an absolute path; use a path in the run directory")
    path = Path(address.removeprefix(SCHEME))
    length = len(os.fsencode(path))
    if length > MAX_PATH_BYTES:
        raise ChannelError(
            f"socket path {path} has {length} bytes; a unix socket allows {MAX_PATH_BYTES}: use a shorter run directory"
        )
    try:
        status = path.parent.lstat()
    except OSError as error:
        raise ChannelError(f"run directory {path.parent} is not usable: {error.strerror}") from error
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or mode != 0o700:
        raise ChannelError(
            f"run directory {path.parent} has owner {status.st_uid} and mode {mode:04o}; "
            f"it must be a directory of user {os.geteuid()} with mode 0700, or others could reach the sockets"
        )
    return path


def _open(kind: int) -> "zmq.Socket[bytes]":
    # One context, so one I/O thread, for all channels of a process.
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(kind)
    socket.setsockopt(zmq.LINGER, 0)  # nothing may keep a process from ending
    return socket
