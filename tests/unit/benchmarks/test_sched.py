"""The scheduling benchmark measures full turns of the size it says."""

from benchmarks.sched import Bench, bench_churn, bench_turn


def test_every_request_is_in_every_turn() -> None:
    bench = Bench(running=8)
    steps = bench.scheduler.steps
    before = bench.scheduler.info().output_tokens
    assert bench.turn() > 0
    assert bench.scheduler.steps == steps + 1
    assert bench.scheduler.info().output_tokens == before + 8


def test_a_request_that_ends_makes_room_for_one_that_came() -> None:
    bench = Bench(running=8)
    bench.arrive()
    bench.turn(ends=1)
    assert bench.scheduler.info().running == 7
    bench.turn()
    assert bench.scheduler.info().running == 8


def test_figures_are_milliseconds_of_a_turn() -> None:
    assert 0 < bench_turn(16, turns=5) < 1000
    assert 0 < bench_churn(16, turns=5) < 1000
