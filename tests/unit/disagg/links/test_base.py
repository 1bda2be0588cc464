"""Both ends of the fake link speak the protocols, and incarnations are told apart."""

import numpy as np

from banyan.disagg.links.base import Handover, Key, KVReceiver, KVSender, Lost, Progress
from banyan.wire.base import I32
from banyan.worker.fake_kv import FakeKV
from tests.fakes.link import FakeLink

KEY = Key(uid=7, epoch=1)
PAGES: I32 = np.array([1, 2], np.int32)


def ends_of_a_link(polls: int = 0) -> tuple[KVSender, KVReceiver]:
    source, target = (FakeKV(4, 2, 2, 4) for _ in range(2))
    link = FakeLink(source, target, polls)
    return link.sender, link.receiver


def test_what_is_sent_arrives_once() -> None:
    sender, receiver = ends_of_a_link()
    assert not sender.wanted(KEY)
    receiver.expect(KEY, PAGES, 0)
    assert sender.wanted(KEY)
    sender.send(KEY, PAGES, Handover(65, 0))
    assert receiver.arrived(KEY) is None
    assert sender.poll(KEY) is Progress.DONE
    assert receiver.arrived(KEY) == Handover(65, 0)
    assert receiver.arrived(KEY) is None


def test_an_older_incarnation_is_not_the_newer_one() -> None:
    sender, receiver = ends_of_a_link()
    receiver.expect(KEY, PAGES, 0)
    assert not sender.wanted(Key(KEY.uid, epoch=0))


def test_a_transfer_to_somebody_who_left_fails() -> None:
    sender, receiver = ends_of_a_link(polls=2)
    receiver.expect(KEY, PAGES, 0)
    sender.send(KEY, PAGES, Handover(65, 0))
    assert sender.poll(KEY) is Progress.UNDER_WAY
    receiver.cancel(KEY)
    assert sender.poll(KEY) is Progress.FAILED


def test_a_refusal_is_heard() -> None:
    sender, receiver = ends_of_a_link()
    receiver.expect(KEY, PAGES, 0)
    sender.refuse(KEY, "no")
    assert receiver.arrived(KEY) == Lost("no")
