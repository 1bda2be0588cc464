"""Real processes are killed, stopped, crashed and hung under load: nobody but the guilty may notice."""

import asyncio
import math
import signal
import threading
import time

import numpy as np
import pytest

from banyan.engine import Engine
from banyan.launch.faults import CRASH, HANG, RAISE
from banyan.text.request import RequestError
from banyan.text.result import Output
from banyan.worker.oracle import Oracle
from benchmarks.streams import Ask, Ledger, mixed_asks, run_streams
from tests.process.harness import engine, findings, free_pages, greedy, kill, pid_of, serve, under_way, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SLOW_STEPS = {"debug.oracle_step_ms": 3.0}
# Asking after silent requests would heal what a restart forgets, only later; here the restart alone must do.
RECOVER = {"recovery": "restart", "recovery.budget": 20, "recovery.probe_interval_s": 100.0}


def restarts(running: Engine) -> dict[str, int]:
    return {name: count for name, count in running.restarts.items() if count}


@pytest.mark.parametrize("victim", ["scheduler 0", "detokenizer 0"])
def test_kill_9_loses_repeats_and_fails_nothing(victim: str) -> None:
    with engine(**SLOW_STEPS, **RECOVER) as running:
        for share in (0.05, 0.4, 0.8):

            def strike(ledgers: list[Ledger], share: float = share) -> None:
                under_way(ledgers, share)
                kill(pid_of(running, victim))

            assert findings(serve(running, mixed_asks(32, 200, seed=round(share * 100)), strike)) == []
        assert restarts(running) == {victim: 3}
        counters = running.tokenizer_manager.journal.counters
        assert counters.reentered > 0
        assert counters.duplicates == 0  # requests went on where they were, not from the start
        until(lambda: free_pages(running), "release of all pages", 1.0)


def test_kill_9_of_the_controller_and_of_a_replica_with_two_replicas() -> None:
    with engine(**SLOW_STEPS, **RECOVER, dp_size=2, load_balance_method="shortest_queue") as running:
        for victim in ("controller 0", "scheduler 1", "scheduler 0"):

            def strike(ledgers: list[Ledger], victim: str = victim) -> None:
                under_way(ledgers)
                kill(pid_of(running, victim))

            assert findings(serve(running, mixed_asks(32, 200, seed=len(victim)), strike)) == []
        assert restarts(running) == {"controller 0": 1, "scheduler 0": 1, "scheduler 1": 1}
        until(lambda: free_pages(running), "release of all pages", 1.0)


def test_hidden_states_are_whole_after_a_restart() -> None:
    ask = greedy("states", 60)
    with engine(**SLOW_STEPS, **RECOVER) as running:
        last: Output = {}
        for last in running.generate(
            input_ids=ask.input_ids, sampling_params=ask.sampling, stream=True, return_hidden_states=True
        ):
            if len(last["output_ids"]) == 20:
                kill(pid_of(running, "scheduler 0"))
        assert restarts(running) == {"scheduler 0": 1}
    assert last["output_ids"] == ask.tokens[0]
    oracle = Oracle()
    states = oracle.extend(0, np.array([*ask.input_ids, *ask.tokens[0]], np.int32))
    wanted = oracle.embeddings(states[len(ask.input_ids) - 1 : -1])
    assert last["meta_info"]["hidden_states"] == wanted.tolist()


def test_requests_sent_while_a_process_is_away_are_served() -> None:
    with engine(**SLOW_STEPS, **RECOVER) as running:
        for victim in ("scheduler 0", "detokenizer 0"):
            before = pid_of(running, victim)
            kill(before)
            ledgers = serve(running, [greedy(f"{victim} {number}", 20) for number in range(8)])
            assert findings(ledgers) == []
            assert pid_of(running, victim) != before


def test_two_processes_killed_at_once() -> None:
    with engine(**SLOW_STEPS, **RECOVER) as running:

        def strike(ledgers: list[Ledger]) -> None:
            under_way(ledgers)
            for pid in running.get_server_info()["pids"].values():
                kill(pid)

        assert findings(serve(running, mixed_asks(32, 200, seed=8), strike)) == []


@pytest.mark.parametrize("victim", ["scheduler 0", "detokenizer 0"])
def test_a_stopped_process_is_seen_replaced_and_silent_for_ever(victim: str) -> None:
    with engine(**SLOW_STEPS, **RECOVER, watchdog_timeout=1.5) as running:
        old = pid_of(running, victim)
        seen_s = 0.0

        def strike(ledgers: list[Ledger]) -> None:
            nonlocal seen_s
            under_way(ledgers)
            kill(old, signal.SIGSTOP)
            began = time.monotonic()
            until(lambda: running.restarts[victim] == 1, "the restart", 10)
            seen_s = time.monotonic() - began
            with pytest.raises(ProcessLookupError):
                kill(old, signal.SIGCONT)

        assert findings(serve(running, mixed_asks(32, 200, seed=4), strike)) == []
        assert 1.5 <= seen_s <= 3.0
        assert restarts(running) == {victim: 1}


def test_a_short_stop_is_no_death() -> None:
    with engine(**SLOW_STEPS, watchdog_timeout=10.0) as running:
        old = pid_of(running, "scheduler 0")

        def strike(ledgers: list[Ledger]) -> None:
            under_way(ledgers)
            kill(old, signal.SIGSTOP)
            threading.Event().wait(1.0)
            kill(old, signal.SIGCONT)

        assert findings(serve(running, mixed_asks(32, 200, seed=5), strike)) == []
        assert pid_of(running, "scheduler 0") == old


def serve_with_poison(running: Engine, asks: list[Ask], marker: bytes, *, late: bool) -> tuple[list[Ledger], Output]:
    """Serve good requests, and a marked one together with them or when they are under way."""
    ledgers = [Ledger(ask) for ask in asks]

    async def main() -> Output:
        async with asyncio.timeout(90):
            others = asyncio.create_task(run_streams(running, ledgers))
            if late:
                await asyncio.to_thread(under_way, ledgers)
            answer = await running.async_generate(f"please {marker.decode()}", {"max_new_tokens": 50})
            await others
            assert isinstance(answer, dict)
            return answer

    answer = asyncio.run(main())
    return ledgers, answer


@pytest.mark.parametrize("late", [False, True])
def test_a_request_that_crashes_the_process_fails_alone(late: bool) -> None:
    with engine(**SLOW_STEPS, **RECOVER, **{"debug.oracle_faults": True}) as running:
        asks = mixed_asks(31, 200, seed=6)
        ledgers, answer = serve_with_poison(running, asks, CRASH, late=late)
        assert findings(ledgers) == []
        reason = answer["meta_info"]["finish_reason"]
        assert reason is not None
        assert (reason["type"], reason["status"]) == ("error", 500)
        assert "engine_crash_isolated" in reason["message"]
        requests = 1 + sum(len(ask.tokens) for ask in asks)
        most = 2 if late else 1 + math.ceil(math.log2(requests))
        assert restarts(running)["scheduler 0"] <= most


def test_a_request_that_hangs_the_process_fails_alone() -> None:
    with engine(**SLOW_STEPS, **RECOVER, **{"debug.oracle_faults": True}, watchdog_timeout=1.5) as running:
        ledgers, answer = serve_with_poison(running, mixed_asks(15, 200, seed=6), HANG, late=True)
        assert findings(ledgers) == []
        reason = answer["meta_info"]["finish_reason"]
        assert reason is not None
        assert reason["type"] == "error"


def test_an_exception_in_a_step_fails_its_request_without_a_restart() -> None:
    with engine(**SLOW_STEPS, **{"debug.oracle_faults": True}) as running:
        old = running.get_server_info()["pids"]
        for late in (False, True):
            ledgers, answer = serve_with_poison(running, mixed_asks(31, 200, seed=7), RAISE, late=late)
            assert findings(ledgers) == []
            reason = answer["meta_info"]["finish_reason"]
            assert reason is not None
            assert "a marked request asked for it" in reason["message"]
        assert running.get_server_info()["pids"] == old
        until(lambda: free_pages(running), "release of all pages", 1.0)


@pytest.mark.parametrize("victim", ["scheduler 0", "detokenizer 0"])
def test_a_spent_budget_ends_everything_with_a_clear_error(victim: str) -> None:
    with engine(**SLOW_STEPS, **(RECOVER | {"recovery.budget": 1})) as running:
        ends: list[str] = []

        def strike(ledgers: list[Ledger]) -> None:
            under_way(ledgers, 0.1)
            kill(pid_of(running, victim))
            until(lambda: running.restarts[victim] == 1, "the restart")
            under_way(ledgers, 0.5)
            kill(running.pids[victim])

        began = time.monotonic()
        for ledger in serve(running, [greedy(f"{number}", 300) for number in range(16)], strike):
            reason = ledger.outputs[0]["meta_info"]["finish_reason"]
            assert reason is not None
            ends.append(reason["message"])
        assert time.monotonic() - began < 30
        assert len(ends) == 16
        kind = victim.split(maxsplit=1)[0]
        assert all(f"the {kind} process is lost" in end and "recovery.budget" in end for end in ends)
        with pytest.raises(RequestError, match=f"the {kind} process is lost") as caught:
            running.generate("more")
        assert caught.value.status == 503


def test_without_recovery_a_death_ends_everything_at_once() -> None:
    with engine(**SLOW_STEPS) as running:

        def strike(ledgers: list[Ledger]) -> None:
            under_way(ledgers, 0.1)
            kill(pid_of(running, "scheduler 0"))

        began = time.monotonic()
        ledgers = serve(running, [greedy(f"{number}", 500) for number in range(8)], strike)
        assert time.monotonic() - began < 10
        assert all("ended with" in finding for ledger in ledgers for finding in ledger.findings[:1])
        assert running.restarts == {"scheduler 0": 0, "detokenizer 0": 0}
