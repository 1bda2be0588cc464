"""Properties of the wire: every message survives it, and nothing that is no message does harm."""

import contextlib
import random
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from banyan.wire.base import Message
from banyan.wire.channel import PullChannel, PushChannel
from banyan.wire.codec import Codec, DecodeError, Frames
from banyan.wire.control import ToScheduler
from tests.property.wire_strategies import messages
from tests.unit.wire.examples import EXAMPLES, GENERATE, message_types

CODEC = Codec[ToScheduler](ToScheduler)
GOOD = CODEC.encode(GENERATE)[0]
FRAMES = [CODEC.encode(example)[0] for example in EXAMPLES if isinstance(example, ToScheduler)]
BURST = 250


@pytest.mark.parametrize("kind", message_types(), ids=lambda kind: kind.__name__)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_message_survives_the_wire(kind: type[Message], data: st.DataObject) -> None:
    message = data.draw(messages(kind))
    codec = Codec[Message](kind)
    frames = codec.encode(message)
    assert codec.decode(frames) == message
    assert codec.encode(codec.decode(frames)) == frames


@given(st.binary(max_size=200))
def test_random_bytes_are_no_message(data: bytes) -> None:
    with pytest.raises(DecodeError):
        CODEC.decode([data])


# Each of these makes something that is no message, whatever the dice say.


def _noise(dice: random.Random) -> Frames:
    return [b"\xc1" + dice.randbytes(dice.randrange(300))]


def _cut(dice: random.Random) -> Frames:
    frame = dice.choice(FRAMES)
    return [frame[: dice.randrange(len(frame))]]


def _appended(dice: random.Random) -> Frames:
    return [dice.choice(FRAMES) + dice.randbytes(1 + dice.randrange(20))]


def _wrong_frames(dice: random.Random) -> Frames:
    return dice.choices(FRAMES, k=2 + dice.randrange(4))


def _field(dice: random.Random) -> Frames:
    tree = msgspec.msgpack.decode(dice.choice(FRAMES))
    name, value = dice.choice(
        [("type", "Stranger"), ("type", "PeerLost"), ("type", 7), ("surprise", 1), ("front", "x"), ("uid", -1)]
    )
    tree[name] = value
    return [msgspec.msgpack.encode(tree)]


def _column(dice: random.Random) -> Frames:
    tree = msgspec.msgpack.decode(GOOD)
    tree[dice.choice(["tokens", "committed"])] = dice.randbytes(4 * dice.randrange(8) + dice.choice([1, 2, 3]))
    return [msgspec.msgpack.encode(tree)]


def _nested(dice: random.Random) -> Frames:
    return [b"\x81\xa1x" + b"\x91" * (2_000 + dice.randrange(2_000))]


BAD: list[Callable[[random.Random], Frames]] = [_noise, _cut, _appended, _wrong_frames, _field, _column, _nested]


def _flipped(dice: random.Random) -> Frames:
    """Change one byte: this may or may not be a message."""
    frame = bytearray(dice.choice(FRAMES))
    frame[dice.randrange(len(frame))] ^= 1 + dice.randrange(255)
    return [bytes(frame)]


def decodes(frames: Frames) -> bool:
    try:
        CODEC.decode(frames)
    except DecodeError:
        return False
    return True


def bombard(folder: Path, count: int) -> None:
    """Send `count` bad messages, and as many doubtful ones, among good ones, through a real socket."""
    folder.chmod(0o700)
    address = f"ipc://{folder}/x"
    dice = random.Random(count)
    good = bad = arrived = 0
    with (
        contextlib.closing(PullChannel[ToScheduler](address, CODEC)) as pull,
        contextlib.closing(PushChannel[ToScheduler](address, CODEC)) as push,
    ):
        for number in range(count):
            doubtful = _flipped(dice)
            harmless = decodes(doubtful)
            push.send_raw(BAD[number % len(BAD)](dice))
            push.send_raw(doubtful)
            bad += 1 + (not harmless)
            good += harmless
            if number % BURST < BURST - 1:
                continue
            push.send(GENERATE)
            good += 1
            deadline = time.monotonic() + 20
            while arrived + pull.bad_frames < good + bad:
                assert time.monotonic() < deadline, "something got lost"
                pull.wait(0.1)
                batch = pull.drain()
                arrived += len(batch)
            assert batch[-1] == GENERATE
        assert push.dropped == 0
        assert pull.bad_frames == bad >= count
        assert arrived == good > count // BURST


@pytest.mark.parametrize("kind", BAD, ids=lambda kind: kind.__name__)
def test_what_is_bad_is_refused_every_time(kind: Callable[[random.Random], Frames]) -> None:
    dice = random.Random(3)
    for _ in range(300):
        with pytest.raises(DecodeError):
            CODEC.decode(kind(dice))


def test_ten_thousand_bad_frames_do_no_harm(tmp_path: Path) -> None:
    bombard(tmp_path, 10_000)


@pytest.mark.slow
def test_a_hundred_thousand_bad_frames_do_no_harm(tmp_path: Path) -> None:
    bombard(tmp_path, 100_000)
