"""Tests of banyan.wire.channel, over real sockets."""

import contextlib
import logging
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from banyan.wire.channel import ChannelError, PullChannel, PushChannel, private_path
from banyan.wire.codec import Codec
from banyan.wire.control import Failed, FromChild, LoadReport
from tests.unit.wire.ends import CODEC, DEADLINE_S, Pull, Push, receive, said, until


def test_messages_arrive_in_order(ends: tuple[Pull, Push]) -> None:
    pull, push = ends
    assert all(push.send(said(number)) for number in range(3000))
    assert receive(pull, 3000) == [said(number) for number in range(3000)]
    assert pull.bad_frames == push.dropped == 0


def test_wait_tells_whether_something_came(ends: tuple[Pull, Push]) -> None:
    pull, push = ends
    assert not pull.wait(0)
    assert not pull.wait(0.001)
    push.send(said(1))
    assert pull.wait(DEADLINE_S)
    assert pull.drain() == [said(1)]
    assert pull.drain() == []


def test_wait_watches_several_channels(ends: tuple[Pull, Push], address: str) -> None:
    pull, _ = ends
    codec = Codec[LoadReport](LoadReport)
    report = LoadReport(replica=0, running=0, waiting=0, waiting_tokens=0, used_tokens=0, total_tokens=1)
    with (
        contextlib.closing(PullChannel(address + "y", codec)) as other,
        contextlib.closing(PushChannel(address + "y", codec)) as push,
    ):
        assert not pull.wait(0, other)
        push.send(report)
        assert pull.wait(DEADLINE_S, other)
        assert pull.drain() == []
        assert other.drain() == [report]


def test_drain_stops_at_its_limit(ends: tuple[Pull, Push]) -> None:
    pull, push = ends
    for number in range(5):
        push.send(said(number))
    assert pull.wait(DEADLINE_S)
    got: list[FromChild] = []
    while len(got) < 5:
        batch = pull.drain(limit=2)
        assert len(batch) <= 2
        got += batch
    assert got == [said(number) for number in range(5)]


def test_the_sender_may_come_first(address: str) -> None:
    with contextlib.closing(Push(address, CODEC)) as push:
        assert push.send(said(1))
        with contextlib.closing(Pull(address, CODEC)) as pull:
            assert receive(pull, 1) == [said(1)]


def test_several_senders_share_a_receiver(ends: tuple[Pull, Push], address: str) -> None:
    pull, push = ends
    with contextlib.closing(Push(address, CODEC)) as second:
        for number in range(100):
            (push, second)[number % 2].send(said(number))
        assert sorted(receive(pull, 100), key=str) == sorted((said(number) for number in range(100)), key=str)


def test_bad_frames_are_counted_and_dropped(ends: tuple[Pull, Push], caplog: pytest.LogCaptureFixture) -> None:
    pull, push = ends
    bad = [[b"\xc1"], [b""], [b"a", b"b"], CODEC.encode(said(0)) * 2, [b"\x81\xa4type\xa3Foo"]]
    start = time.monotonic()
    with caplog.at_level(logging.WARNING):
        for frames in bad:
            assert push.send_raw(frames)
            push.send(said(7))
        assert receive(pull, len(bad)) == [said(7)] * len(bad)
    assert pull.bad_frames == len(bad)
    assert len(caplog.records) <= 1 + (time.monotonic() - start), "a flood of bad frames is one line a second"
    assert "x: 1 bad messages dropped" in caplog.text


def test_an_oversized_message_is_counted_by_the_receiver_and_refused_by_the_sender(address: str) -> None:
    small = Codec[FromChild](FromChild, max_bytes=1000)
    with (
        contextlib.closing(Pull(address, small)) as pull,
        contextlib.closing(Push(address, CODEC)) as unaware,
        contextlib.closing(Push(address, small)) as push,
    ):
        assert not push.send(Failed(reason="x" * 1000))
        assert push.dropped == 1
        unaware.send(Failed(reason="x" * 1000))
        until(pull, lambda: pull.bad_frames == 1)
        # Far beyond the cap the connection is dropped, with what was on its way; the sender makes a new one.
        unaware.send(Failed(reason="x" * 10_000))
        deadline = time.monotonic() + DEADLINE_S
        while not pull.wait(0.01):
            assert time.monotonic() < deadline
            unaware.send(said(1))
        assert set(pull.drain()) == {said(1)}
        assert pull.bad_frames == 1


def test_a_full_queue_drops_and_counts_and_never_blocks(address: str, caplog: pytest.LogCaptureFixture) -> None:
    with contextlib.closing(Push(address, CODEC, capacity=10)) as push, caplog.at_level(logging.WARNING):
        sent = [push.send(said(number)) for number in range(50)]  # nobody is there to receive
        assert sent == [True] * 10 + [False] * 40
        assert push.dropped == 40
        assert "the queue is full" in caplog.text
        with contextlib.closing(Pull(address, CODEC)) as pull:
            assert receive(pull, 10) == [said(number) for number in range(10)]


def test_reconnect_forgets_what_was_queued(address: str) -> None:
    with contextlib.closing(Push(address, CODEC)) as push:
        push.send(said(1))  # nobody is there yet
        push.reconnect()
        push.send(said(2))
        with contextlib.closing(Pull(address, CODEC)) as pull:
            assert receive(pull, 1) == [said(2)]
            assert not pull.wait(0.05)


def test_a_successor_on_the_same_address_gets_what_is_sent_after_reconnect(address: str) -> None:
    with contextlib.closing(Push(address, CODEC)) as push:
        first = Pull(address, CODEC)
        push.send(said(1))
        assert receive(first, 1) == [said(1)]
        first.close()
        with contextlib.closing(Pull(address, CODEC)) as second:
            push.reconnect()
            push.send(said(2))
            assert receive(second, 1) == [said(2)]


def test_a_killed_receiver_leaves_its_file_and_a_successor_binds_it(address: str) -> None:
    code = (
        "import sys; from banyan.wire.channel import PullChannel; from banyan.wire.codec import Codec\n"
        "from banyan.wire.control import FromChild\n"
        "pull = PullChannel(sys.argv[1], Codec(FromChild)); print('bound', flush=True); pull.wait(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, address], stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child, child.stdout:
        assert child.stdout.readline() == b"bound\n"
        child.kill()
    assert private_path(address).exists()
    with contextlib.closing(Push(address, CODEC)) as push, contextlib.closing(Pull(address, CODEC)) as pull:
        push.send(said(1))
        assert receive(pull, 1) == [said(1)]
    assert not private_path(address).exists()


def test_close_leaves_no_file_and_may_be_called_twice(address: str) -> None:
    pull = Pull(address, CODEC)
    path = private_path(address)
    assert stat.S_ISSOCK(path.stat().st_mode)
    pull.close()
    pull.close()
    assert list(path.parent.iterdir()) == []


def test_close_spares_the_file_of_a_successor(address: str) -> None:
    first = Pull(address, CODEC)
    with contextlib.closing(Pull(address, CODEC)) as second:
        first.close()
        with contextlib.closing(Push(address, CODEC)) as push:
            push.send(said(1))
            assert receive(second, 1) == [said(1)]


def test_frames_are_relayed_without_encoding_them_again(ends: tuple[Pull, Push], address: str) -> None:
    pull, push = ends
    with (
        contextlib.closing(Pull(address + "y", CODEC)) as target,
        contextlib.closing(Push(address + "y", CODEC)) as forward,
    ):
        push.send(said(5))
        assert pull.wait(DEADLINE_S)
        [(message, raw)] = pull.drain_raw()
        assert message == said(5)
        assert raw == CODEC.encode(said(5))
        assert forward.send_raw(raw)
        assert receive(target, 1) == [said(5)]


@pytest.mark.parametrize("bad", ["tcp://127.0.0.1:5555", "ipc://relative", "ipc://@abstract", "ipc://*", "inproc://x"])
def test_only_paths_are_addresses(bad: str) -> None:
    with pytest.raises(ChannelError, match="absolute path"):
        Pull(bad, CODEC)
    with pytest.raises(ChannelError, match="absolute path"):
        Push(bad, CODEC)


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701, 0o1777, 0o500])
def test_a_directory_that_others_can_enter_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(ChannelError, match=f"mode {mode:04o}; it must be"):
        Pull(f"ipc://{tmp_path}/x", CODEC)
    tmp_path.chmod(0o700)
    Pull(f"ipc://{tmp_path}/x", CODEC).close()


def test_a_directory_of_somebody_else_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ChannelError, match=f"owner {os.getuid()} .* directory of user {os.getuid() + 1}"):
        Pull(address, CODEC)


def test_a_link_to_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(ChannelError, match="must be a directory"):
        Pull(f"ipc://{tmp_path}/link/x", CODEC)


def test_a_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ChannelError, match="No such file"):
        Pull(f"ipc://{tmp_path}/missing/x", CODEC)


def test_a_path_that_is_taken_by_a_directory_is_refused(address: str) -> None:
    private_path(address).mkdir()
    with pytest.raises(ChannelError, match="cannot bind"):
        Pull(address, CODEC)


def test_the_longest_path_works_and_a_longer_one_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    address = f"ipc://{tmp_path}/".ljust(107 + len("ipc://"), "x")
    Pull(address, CODEC).close()
    with pytest.raises(ChannelError, match="108 bytes; a unix socket allows 107"):
        Pull(address + "x", CODEC)
