"""The parts of a scheduler process: each setting reaches the part that it is for."""

import stat
from pathlib import Path

from banyan.launch.child import ChildArgs
from banyan.launch.faults import marked_faults
from banyan.launch.ports import PortArgs
from banyan.launch.scheduler import (
    REPORT_S,
    LoadReporter,
    build_cache,
    make_executor,
    make_setup,
    max_req_input_len,
    open_record,
)
from banyan.memory.ledger.cache import ChunkCache, RadixCache
from banyan.sched.record import Setup
from banyan.sched.scheduler import Scheduler
from banyan.sched.select import select_loop
from banyan.wire.control import LoadReport
from banyan.wire.request import SamplingParams, TokenizedGenerateReqInput
from banyan.worker.fake import FakeExecutor
from tests.unit.launch.settle import settle


def setup(**options: object) -> Setup:
    return make_setup(settle(**options), select_loop("null", 1, 1), replica=1)


def test_limits_hold_what_was_settled() -> None:
    settled = settle(
        context_length=512,
        max_running_requests=7,
        schedule_policy="lpm",
        stream_interval=3,
        chunked_prefill_size=64,
        max_queued_requests=9,
        schedule_depth=2,
    )
    limits = make_setup(settled, select_loop("null", 1, settled.depth), replica=1).limits
    assert (limits.num_slots, limits.context_length, limits.token_budget) == (7, 512, 64)
    assert (limits.max_queued, limits.depth, limits.chained) == (9, 2, True)
    assert (limits.policy, limits.stream_interval, limits.replica) == ("lpm", 3, 1)
    assert (limits.vocab_size, limits.eos_ids) == (259, (256,))


def test_the_cache_is_the_one_asked_for() -> None:
    radix = build_cache(setup(max_total_tokens=1600, page_size=16, context_length=100))
    chunk = build_cache(setup(max_total_tokens=1600, page_size=16, context_length=100, disable_radix_cache=True))
    assert isinstance(radix, RadixCache)
    assert isinstance(chunk, ChunkCache)
    assert (radix.num_pages, radix.page_size, radix.table.shape[1]) == (100, 16, 7)


def test_the_longest_prompt_leaves_room_for_one_token() -> None:
    assert max_req_input_len(setup(context_length=512)) == 511


def test_faults_are_planted_only_on_demand() -> None:
    plain, armed = make_executor(settle()), make_executor(settle(**{"debug.oracle_faults": True}))
    assert isinstance(plain, FakeExecutor)
    assert isinstance(armed, FakeExecutor)
    assert plain.faults.forward is None
    assert armed.faults == marked_faults()


def test_load_is_reported_when_it_changes_but_not_too_often() -> None:
    made = setup(max_running_requests=4, context_length=64)
    scheduler = Scheduler(made.limits, build_cache(made))
    reports: list[LoadReport] = []
    reporter = LoadReporter(scheduler, reports.append)

    def ask(uid: int) -> None:
        sampling = SamplingParams(max_new_tokens=4)
        request = TokenizedGenerateReqInput(uid=uid, rid="", tokens=b"\1\0\0\0", sampling=sampling, seed=1)
        scheduler.receive(request, 0.0)

    reporter.report(100.0, at_once=False)
    ask(1)
    reporter.report(100.0 + REPORT_S / 2, at_once=False)  # too soon
    ask(2)
    reporter.report(100.0 + REPORT_S, at_once=False)
    reporter.report(100.0 + 3 * REPORT_S, at_once=True)  # nothing new
    ask(3)
    reporter.report(100.0 + 3 * REPORT_S, at_once=True)
    assert [report.waiting for report in reports] == [0, 2, 3]
    assert reports[0].replica == 1


def test_a_recording_is_private_and_each_incarnation_has_its_own(tmp_path: Path) -> None:
    ports = PortArgs(directory="/run/x", dp_size=1, num_fronts=1)
    for incarnation in range(2):
        args = ChildArgs(
            kind="scheduler", index=0, incarnation=incarnation, parent_pid=1, settled=settle(), ports=ports
        )
        with open_record(tmp_path / "records", args) as file:
            file.write(b"x")
    paths = sorted((tmp_path / "records").iterdir())
    assert [path.name for path in paths] == ["scheduler0-1-0.record", "scheduler0-1-1.record"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
