"""News: the supervisor's ties to the rest of the server: fronts, controller, flight records, stderr."""

import contextlib
import os
import select
import time

import numpy as np

from banyan.launch.ports import Kind, PortArgs
from banyan.launch.supervisor import Pulse
from banyan.obs.flight import FlightRecord
from banyan.wire.channel import PushChannel
from banyan.wire.codec import Codec
from banyan.wire.control import PeerLost, PeerRestarted, ToFront

STDERR = 2


class News:
    """Used by the supervisor's thread only, once that runs."""

    def __init__(self, ports: PortArgs) -> None:
        self._ports = ports
        self._stderr = select.poll()
        self._stderr.register(STDERR, select.POLLOUT)
        codec: Codec[ToFront] = Codec(ToFront)
        self._fronts = [PushChannel(ports.front(index), codec) for index in range(ports.num_fronts)]
        self._controller = PushChannel(ports.requests, codec) if ports.dp_size > 1 else None

    def pulse(self, kind: Kind, index: int) -> Pulse | None:
        """Read a child's flight record."""
        flight = FlightRecord.read(self._ports.record(kind, index))
        return Pulse(
            busy=flight.busy,
            silent_s=time.monotonic() - flight.beat_at,
            suspects=np.asarray(flight.suspects, np.int64).tobytes(),
            newcomers=np.asarray(flight.newcomers, np.int64).tobytes(),
        )

    def tell(self, news: PeerRestarted | PeerLost) -> None:
        """Tell the controller first: what the fronts send next must find it informed."""
        if self._controller is not None:
            self._controller.send(news)
        for front in self._fronts:
            front.send(news)

    def down(self, news: PeerLost) -> None:
        """Tell the controller that a child is away."""
        if self._controller is not None:
            self._controller.send(news)

    def relay(self, text: bytes) -> None:
        """Children log to our stderr. One that nobody reads must not stop the thread that watches the children: what
        cannot be written at once is lost."""
        with contextlib.suppress(OSError):
            while text and self._stderr.poll(0):
                text = text[os.write(STDERR, text[: select.PIPE_BUF]) :]

    def close(self) -> None:
        """Disconnect."""
        for channel in (*self._fronts, self._controller):
            if channel is not None:
                channel.close()
