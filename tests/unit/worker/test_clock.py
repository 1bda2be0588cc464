"""Clocks tell and spend time."""

import time

from banyan.worker.clock import Clock, RealClock, VirtualClock


def test_virtual_clock_jumps_forward_and_never_back() -> None:
    clock: Clock = VirtualClock(start=5.0)
    clock.sleep_until(7.5)
    assert clock.now() == 7.5
    clock.sleep_until(1.0)
    assert clock.now() == 7.5


def test_real_clock_waits_until_the_moment() -> None:
    clock: Clock = RealClock()
    moment = clock.now() + 0.01
    clock.sleep_until(moment)
    assert clock.now() >= moment


def test_real_clock_does_not_wait_for_the_past() -> None:
    clock = RealClock()
    before = time.monotonic()
    clock.sleep_until(before - 3600.0)
    assert time.monotonic() - before < 1.0
