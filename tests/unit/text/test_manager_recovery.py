"""Tests of banyan.text.manager when other processes die, lose messages or fail."""

import asyncio

import pytest

from banyan.text.manager import TokenizerManager
from banyan.text.request import GenerateReqInput, RequestError
from banyan.text.result import Output
from banyan.wire.control import PeerLost
from banyan.wire.output import FinishReason
from banyan.wire.request import ProbeReq
from tests.unit.text.backend import GREEDY, Backend, answer, manager, only, run, serving, settle
from tests.unit.text.wiring import Out, ended, str_batch


@pytest.mark.parametrize("stop", [[], ["#"], ["😀#"]])
def test_crashes_at_every_point_do_not_change_the_answer(stop: list[str]) -> None:
    text = "aé😀#b"
    size = len(text.encode())

    async def one(crash_at: int, *, scheduler: bool) -> Output:
        backend, steps = Backend(), 0

        def on_step() -> None:
            nonlocal steps
            steps += 1
            if steps == crash_at:
                backend.crash() if scheduler else backend.crash_detokenizer()

        backend.on_step = on_step
        async with serving(backend, manager(backend)) as made:
            asked = GenerateReqInput(text=text, sampling_params={**GREEDY, "stop": stop})
            return await asyncio.wait_for(only(made, asked), 10)

    async def main() -> None:
        reference = await one(10**6, scheduler=True)
        for crash_at in range(1, size + 2):
            for scheduler in (True, False):
                output = await one(crash_at, scheduler=scheduler)
                assert (output["text"], output["output_ids"]) == (reference["text"], reference["output_ids"])

    asyncio.run(main())


def test_the_guilty_request_fails_alone() -> None:
    async def test(backend: Backend, made: TokenizerManager) -> None:
        innocent = asyncio.create_task(answer(made, "abc"))
        guilty = asyncio.create_task(answer(made, "xyz"))
        await settle()
        first, second = backend.running
        backend.crash((first, second), deliberate=False)
        await settle()
        assert list(backend.running) == [second]
        backend.crash((second,), deliberate=False)
        await settle()
        reason = (await guilty)["meta_info"]["finish_reason"]
        assert reason is not None
        assert (reason["type"], reason["status"]) == ("error", 500)
        backend.paused = False
        backend.schedule()
        assert (await innocent)["text"] == "abc"

    run(test, paused=True)


def test_a_request_that_is_lost_on_the_way_is_found_by_a_probe() -> None:
    times = [0.0]

    async def test(backend: Backend, made: TokenizerManager) -> None:
        waiting = asyncio.create_task(answer(made, "ab"))
        await settle()
        backend.running.clear()
        times[0] = 4.0
        made.tick()
        assert not any(isinstance(message, ProbeReq) for message in backend.sent)
        times[0] = 5.0
        made.tick()
        await settle()
        backend.paused = False
        backend.schedule()
        assert (await waiting)["text"] == "ab"
        assert made.journal.counters.reentered == 1

    run(test, paused=True, clock=lambda: times[0])


def test_when_the_schedulers_are_lost_everybody_is_told() -> None:
    async def test(backend: Backend, made: TokenizerManager) -> None:
        waiting = asyncio.create_task(answer(made, "ab"))
        await settle()
        backend.say(PeerLost(kind="scheduler", index=0, cause="it died"))
        reason = (await waiting)["meta_info"]["finish_reason"]
        assert reason is not None
        assert (reason["type"], reason["status"]) == ("error", 503)
        with pytest.raises(RequestError, match="the scheduler process is lost: it died") as caught:
            await answer(made, "ab")
        assert caught.value.status == 503

    run(test, paused=True)


def test_an_error_of_the_scheduler_is_an_answer() -> None:
    async def test(backend: Backend, made: TokenizerManager) -> None:
        waiting = asyncio.create_task(answer(made, "ab"))
        await settle()
        (uid,) = backend.running
        reason = FinishReason(kind="error", message="waited too long", status=503)
        backend.say(str_batch(Out(uid, 0, [], finished=ended(0, reason))))
        meta = (await waiting)["meta_info"]
        assert meta["finish_reason"] == {"type": "error", "message": "waited too long", "status": 503}

    run(test, paused=True)
