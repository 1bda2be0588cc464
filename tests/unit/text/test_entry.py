"""Tests of banyan.text.entry."""

from banyan.text.entry import Actions, Entry
from tests.unit.text.wiring import request


def test_entries_share_nothing() -> None:
    one, other = Entry(request=request(1), heard=0.0), Entry(request=request(2), heard=0.0)
    one.committed += b"1234"
    one.missing.add(3)
    assert (bytes(other.committed), sorted(other.missing), other.replica) == (b"", [], -1)
    assert Actions().messages is not Actions().messages
