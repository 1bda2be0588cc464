"""What a caller can do with a running tree, on the oracle model, compared with what the oracle gives alone."""

import asyncio
import random
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from banyan.engine import Engine
from banyan.text.request import RequestError
from banyan.wire.channel import PushChannel
from banyan.wire.codec import Codec
from banyan.wire.control import ToDetokenizer, ToFront, ToScheduler
from banyan.wire.request import AbortAllReq, SamplingParams
from banyan.worker.oracle import Oracle
from benchmarks.streams import Ledger, make_ask, mixed_asks
from tests.process.harness import engine, findings, free_pages, greedy, serve, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(90)]


@pytest.fixture(scope="module")
def running() -> Iterator[Engine]:
    with engine(**{"debug.oracle_step_ms": 2.0}, context_length=1024) as one:
        yield one


def test_a_mixed_load_is_exact(running: Engine) -> None:
    assert findings(serve(running, mixed_asks(60, 120, seed=3))) == []
    until(lambda: free_pages(running), "release of all pages", 1.0)


def test_a_list_of_prompts_gives_a_list_of_answers_in_order(running: Engine) -> None:
    asks = [greedy(f"prompt {number}", 20 - number) for number in range(10)]
    answers = running.generate(
        input_ids=[ask.input_ids for ask in asks], sampling_params=[ask.sampling for ask in asks]
    )
    assert isinstance(answers, list)
    assert [answer["output_ids"] for answer in answers] == [ask.tokens[0] for ask in asks]
    assert [answer["index"] for answer in answers] == list(range(10))


def test_several_outputs_of_one_prompt_differ_and_are_exact(running: Engine) -> None:
    ask = make_ask("roll", SamplingParams(n=4, sampling_seed=9, max_new_tokens=30, ignore_eos=True))
    answers = running.generate(input_ids=ask.input_ids, sampling_params=ask.sampling)
    assert isinstance(answers, list)
    assert tuple(answer["output_ids"] for answer in answers) == ask.tokens
    assert len({answer["text"] for answer in answers}) == 4


def test_text_is_tokenised_here_and_may_hold_any_character(running: Engine) -> None:
    prompt = "Größe \N{CAT FACE} 木"
    answer = running.generate(prompt, {"temperature": 0, "max_new_tokens": 12, "ignore_eos": True})
    assert isinstance(answer, dict)
    assert answer["output_ids"] == greedy(prompt, 12).tokens[0]
    assert answer["meta_info"]["prompt_tokens"] == len(prompt.encode())


def test_a_stream_brings_its_first_chunk_before_the_end(running: Engine) -> None:
    ask = greedy("stream", 200)
    ledger = Ledger(ask)
    for chunk in running.generate(input_ids=ask.input_ids, sampling_params=ask.sampling, stream=True):
        ledger.take(chunk)
        if len(ledger.arrivals) == 1:
            assert len(chunk["output_ids"]) < 50
    ledger.close()
    assert ledger.findings == []
    assert len(ledger.arrivals) > 10


def test_whoever_stops_reading_ends_the_request(running: Engine) -> None:
    chunks = running.generate("endless", {"max_new_tokens": 900, "ignore_eos": True}, stream=True)
    next(chunks)
    assert not free_pages(running)
    chunks.close()
    until(lambda: free_pages(running), "release of all pages", 1.0)


def test_an_abort_ends_the_request_with_what_there_is(running: Engine) -> None:
    ask = greedy("abort me", 900)
    chunks = running.generate(input_ids=ask.input_ids, sampling_params=ask.sampling, stream=True, rid="mine")
    first = next(chunks)
    assert running.abort("another") == 0
    assert running.abort("mine") == 1
    last = [first, *chunks][-1]
    reason = last["meta_info"]["finish_reason"]
    assert reason is not None
    assert reason["type"] == "abort"
    assert last["output_ids"] == ask.tokens[0][: len(last["output_ids"])]
    until(lambda: free_pages(running), "release of all pages", 1.0)


def test_all_requests_can_be_aborted_at_once(running: Engine) -> None:
    ends: list[str] = []

    def one(number: int) -> None:
        answer = running.generate(f"{number}", {"max_new_tokens": 900, "ignore_eos": True})
        assert isinstance(answer, dict)
        reason = answer["meta_info"]["finish_reason"]
        ends.append(reason["type"] if reason is not None else "none")

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    until(lambda: running.get_server_info()["replicas"][0].running == 8, "eight running requests")
    assert running.abort(abort_all=True) == 8
    for thread in threads:
        thread.join(10)
    assert ends == ["abort"] * 8


def test_it_works_inside_of_a_running_event_loop(running: Engine) -> None:
    ask = greedy("nested", 10)

    async def main() -> list[list[int]]:
        blocking = running.generate(input_ids=ask.input_ids, sampling_params=ask.sampling)
        waiting = await running.async_generate(input_ids=ask.input_ids, sampling_params=ask.sampling)
        assert isinstance(blocking, dict)
        assert isinstance(waiting, dict)
        return [blocking["output_ids"], waiting["output_ids"]]

    assert asyncio.run(main()) == [ask.tokens[0]] * 2


def test_a_cancelled_task_ends_its_request(running: Engine) -> None:
    async def main() -> None:
        task = asyncio.create_task(running.async_generate("cancel", {"max_new_tokens": 900, "ignore_eos": True}))
        while free_pages(running):
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    until(lambda: free_pages(running), "release of all pages", 1.0)


def test_vectors_are_those_of_the_oracle(running: Engine) -> None:
    answers = running.encode(["one", "two"])
    assert isinstance(answers, list)
    oracle = Oracle()
    for text, answer in zip(("one", "two"), answers, strict=True):
        states = oracle.extend(oracle.origin(), np.frombuffer(text.encode(), np.uint8).astype(np.int32))
        np.testing.assert_allclose(answer["embedding"], oracle.embeddings(states[-1:])[0])


def test_a_prompt_that_is_too_long_is_refused_with_the_limit_that_the_scheduler_reported(running: Engine) -> None:
    limit = running.get_server_info()["max_req_input_len"]
    assert limit == 1023
    assert isinstance(running.generate(input_ids=[65] * limit, sampling_params={"max_new_tokens": 1}), dict)
    with pytest.raises(RequestError, match=f"has {limit + 1} tokens; a prompt may have {limit}") as caught:
        running.generate(input_ids=[65] * (limit + 1))
    assert caught.value.status == 400


def test_a_shared_prefix_is_computed_once_until_the_cache_is_flushed(running: Engine) -> None:
    prompt = "the same beginning " * 20

    def cached() -> int:
        answer = running.generate(prompt, {"max_new_tokens": 4})
        assert isinstance(answer, dict)
        return answer["meta_info"]["cached_tokens"]

    running.flush_cache()
    assert [cached(), cached() > 300] == [0, True]
    running.flush_cache()
    assert cached() == 0


def flood(channel: PushChannel[Any], frames: list[bytes]) -> None:
    for frame in frames:
        until(lambda: channel.send_raw([frame]), "room in the queue")  # noqa: B023 - called at once


def test_malformed_frames_are_counted_and_harm_nobody(running: Engine) -> None:
    ports = running.attachment.ports
    dice = random.Random(5)
    codec: Codec[ToScheduler] = Codec(ToScheduler)
    good = codec.encode(AbortAllReq(front=63))[0]
    frames = [dice.randbytes(dice.randint(0, 200)) for _ in range(5000)]
    for _ in range(5000):
        broken = bytearray(good)
        broken[dice.randrange(3)] ^= 0x80
        frames.append(bytes(broken))
    channels: list[PushChannel[Any]] = [
        PushChannel(ports.requests, codec),
        PushChannel(ports.tokens, Codec[ToDetokenizer](ToDetokenizer)),
        PushChannel(ports.front(0), Codec[ToFront](ToFront)),
    ]
    for channel in channels:
        flood(channel, frames)
    until(lambda: running.get_server_info()["replicas"][0].bad_frames == len(frames), "all bad frames counted")
    assert findings(serve(running, [greedy("still here", 30)])) == []
    for channel in channels:
        channel.close()
    assert set(running.get_server_info()["restarts"].values()) == {0}
