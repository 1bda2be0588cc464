"""The tally of an experiment, its table and its rows."""

from banyan.wire.request import SamplingParams
from benchmarks.faults import Tally, rows, table
from benchmarks.streams import Ledger, make_ask

ASK = make_ask("hello", SamplingParams(temperature=0.0, max_new_tokens=4, ignore_eos=True))


def test_a_tally_passes_only_if_nothing_was_lost_and_every_restart_was_asked_for() -> None:
    assert Tally("scheduler 0", kills=2, restarts=2).passed
    assert not Tally("scheduler 0", kills=2, restarts=3).passed
    assert not Tally("scheduler 0", kills=2, restarts=2, kv_held_pages=1).passed
    assert not Tally("scheduler 0", kills=2, restarts=2, failed=1).passed


def test_only_streams_that_were_live_have_a_stall() -> None:
    tally = Tally("scheduler 0")
    live = Ledger(ASK, arrivals=[0.0, 1.0, 3.0, 3.1])
    done = Ledger(ASK, arrivals=[0.0, 1.0])
    late = Ledger(ASK, arrivals=[2.5, 9.0])
    never = Ledger(ASK)
    never.close()
    tally.add([live, done, late, never], killed_at=2.0)
    assert tally.stalls_ms == [2000.0]
    assert (tally.kills, tally.streams, tally.failed, tally.missing) == (1, 4, 1, 16)
    assert tally.stall_ms(50) == 2000.0


def test_rows_and_table_name_the_figures() -> None:
    tally = Tally("scheduler 0", kills=1, streams=2, restarts=1, failed=3, stalls_ms=[10.0, 20.0])
    made = {row.workload: row for row in rows("F1", tally)}
    assert set(made) == {"F1", "F1-repeated", "F1-missing", "F1-stall-p50", "F1-stall-p99"}
    assert (made["F1"].value, made["F1"].target, made["F1-stall-p50"].value) == (3, 0, 15.0)
    assert made["F1"].extra["streams_live_at_kill"] == 2
    lines = table({"F1": tally}).splitlines()
    assert len(lines) == 2
    assert len(set(map(len, lines))) == 1
