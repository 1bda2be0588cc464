"""News: who is told what, and what a flight record comes to."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from banyan.launch import news
from banyan.launch.news import News
from banyan.launch.ports import PortArgs, RunDirectory
from banyan.launch.router import ToController
from banyan.obs.flight import FlightRecord
from banyan.wire.base import i64
from banyan.wire.channel import PullChannel
from banyan.wire.codec import Codec
from banyan.wire.control import PeerLost, PeerRestarted, ToFront

LOST = PeerLost(kind="scheduler", index=1, cause="gone")
BACK = PeerRestarted(kind="scheduler", index=1, incarnation=1)


@pytest.fixture
def ports(tmp_path: Path) -> Iterator[PortArgs]:
    directory = RunDirectory.create(tmp_path)
    yield PortArgs(directory=str(directory.path), dp_size=2, num_fronts=2)
    directory.remove()


def heard(channel: PullChannel[Any]) -> list[Any]:
    assert channel.wait(5.0)
    return channel.drain()


def test_fronts_hear_of_returns_and_losses_and_the_controller_of_absences_too(ports: PortArgs) -> None:
    fronts: list[PullChannel[ToFront]] = [PullChannel(ports.front(index), Codec(ToFront)) for index in range(2)]
    controller: PullChannel[ToController] = PullChannel(ports.requests, Codec(ToController))
    speaker = News(ports)
    speaker.down(LOST)
    assert heard(controller) == [LOST]
    speaker.tell(BACK)
    assert [heard(front) for front in fronts] == [[BACK]] * 2
    assert heard(controller) == [BACK]
    speaker.tell(LOST)
    assert [heard(front) for front in fronts] == [[LOST]] * 2
    speaker.close()
    controller.close()
    for front in fronts:
        front.close()


def test_a_pulse_is_read_from_the_flight_record(ports: PortArgs) -> None:
    speaker = News(ports)
    record = FlightRecord(ports.record("scheduler", 0), num_slots=2)
    record.beat(time.monotonic() - 5.0, busy=True)
    record.open_slot(1, uid=77, epoch=0)
    record.open_slot(2, uid=88, epoch=0)
    record.launched(0, np.array([1, 2], np.int32), np.array([2], np.int32))
    pulse = speaker.pulse("scheduler", 0)
    record.close()
    speaker.close()
    assert pulse is not None
    assert pulse.busy
    assert 5.0 <= pulse.silent_s < 6.0
    assert (i64(pulse.suspects).tolist(), i64(pulse.newcomers).tolist()) == ([77, 88], [88])


def test_without_a_record_nobody_is_suspected_and_nothing_hangs(ports: PortArgs) -> None:
    speaker = News(ports)
    pulse = speaker.pulse("detokenizer", 0)
    speaker.close()
    assert pulse is not None
    assert (pulse.busy, pulse.suspects) == (False, b"")


def test_what_children_write_goes_to_stderr(ports: PortArgs, capfd: pytest.CaptureFixture[str]) -> None:
    speaker = News(ports)
    speaker.relay(b"a line\n")
    speaker.close()
    assert capfd.readouterr().err == "a line\n"


@pytest.mark.parametrize("reader", ["gone", "asleep"])
def test_a_stderr_that_nobody_reads_does_no_harm(ports: PortArgs, monkeypatch: pytest.MonkeyPatch, reader: str) -> None:
    read, write = os.pipe()
    if reader == "gone":
        os.close(read)
    monkeypatch.setattr(news, "STDERR", write)
    speaker = News(ports)
    speaker.relay(b"x" * (1 << 20))  # far more than a pipe holds
    speaker.close()
    os.close(write)
    if reader == "asleep":
        assert len(os.read(read, 1 << 20)) >= 4096
        os.close(read)
