"""The committed trace gives the same steps as on the day it was recorded.

If a change is meant to change decisions, record anew with `python -m tests.replay.make` and say so in the commit.
"""

from banyan.sched.record import replay
from tests.fakes.grammar import make_grammar
from tests.replay.make import TRACE


def test_decisions_have_not_changed() -> None:
    report = replay(TRACE, make_grammar)
    assert report.mismatches == ()
    assert report.steps > 100
