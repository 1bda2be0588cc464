"""Tests of banyan.text.manager: answers, streams, batches, refusals, aborts, sessions, over in-memory channels."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

import pytest

from banyan.text.manager import THREAD_CHARS, TokenizerManager
from banyan.text.request import EmbeddingReqInput, GenerateReqInput, RequestError
from banyan.text.result import Output
from banyan.wire.base import i32
from banyan.wire.output import BatchStrOut
from banyan.wire.request import AbortReq, TokenizedGenerateReqInput
from tests.unit.text.backend import GREEDY, LIMITS, Backend, answer, collect, manager, only, run, settle
from tests.unit.text.test_detokenizer import Recorder

T = TypeVar("T")

# -- answers


def test_an_answer() -> None:
    async def test(_: Backend, made: TokenizerManager) -> Output:
        return await answer(made, "héllo", rid="mine")

    output = run(test)
    assert output["text"] == "héllo"
    assert output["output_ids"] == list("héllo".encode())
    meta = output["meta_info"]
    assert meta["id"] == "mine"
    assert meta["finish_reason"] == {"type": "length", "length": 6}
    assert (meta["prompt_tokens"], meta["completion_tokens"], meta["cached_tokens"]) == (6, 6, 2)
    assert meta["e2e_latency"] == 0.0
    assert "index" not in output
    assert "output_token_logprobs" not in meta


def test_a_stream_grows() -> None:
    async def test(_: Backend, made: TokenizerManager) -> list[Output]:
        return await collect(made, GenerateReqInput(text="añb", sampling_params=GREEDY, stream=True))

    chunks = run(test)
    texts = [chunk["text"] for chunk in chunks]
    assert texts[-1] == "añb"
    assert len(texts) > 2
    assert all(after.startswith(before) for before, after in pairwise(texts))
    assert [chunk["meta_info"]["finish_reason"] is None for chunk in chunks] == [True] * (len(chunks) - 1) + [False]


def test_the_first_chunk_comes_before_the_end() -> None:
    async def test(backend: Backend, made: TokenizerManager) -> None:
        stream = made.generate_request(GenerateReqInput(text="ab", sampling_params=GREEDY, stream=True))
        first = asyncio.ensure_future(anext(stream))
        await settle()
        backend.step()
        chunk = await first
        assert isinstance(chunk, dict)
        assert chunk["text"] == "a"
        backend.step()
        last = await anext(stream)
        assert isinstance(last, dict)
        assert last["text"] == "ab"
        assert [chunk async for chunk in stream] == []

    run(test, paused=True)


def test_a_batch_keeps_its_order() -> None:
    async def test(_: Backend, made: TokenizerManager) -> list[Any]:
        return await collect(made, GenerateReqInput(text=["long one", "x", "two"], sampling_params=GREEDY))

    (outputs,) = run(test)
    assert [(output["text"], output["index"]) for output in outputs] == [("long one", 0), ("x", 1), ("two", 2)]


def test_a_list_of_one_is_a_list() -> None:
    async def test(_: Backend, made: TokenizerManager) -> None:
        for asked in (GenerateReqInput(text=["a"]), GenerateReqInput(input_ids=[[97]])):
            (outputs,) = await collect(made, asked)
            assert isinstance(outputs, list)
        (output,) = await collect(made, GenerateReqInput(input_ids=[97]))
        assert isinstance(output, dict)

    run(test)


def test_n_outputs_differ_when_sampled() -> None:
    params = {"n": 3, "max_new_tokens": 1, "sampling_seed": 1}

    async def test(_: Backend, made: TokenizerManager) -> list[Any]:
        return await collect(made, GenerateReqInput(text="a", sampling_params=params, rid="r"))

    (outputs,) = run(test)
    assert [output["meta_info"]["id"] for output in outputs] == ["r-0", "r-1", "r-2"]
    assert len({output["text"] for output in outputs}) == 3


def test_streams_of_a_batch_carry_their_index() -> None:
    async def test(_: Backend, made: TokenizerManager) -> list[Output]:
        asked = GenerateReqInput(text=["abc", "de"], sampling_params={**GREEDY, "n": 2}, stream=True)
        return await collect(made, asked)

    last = {chunk["index"]: chunk for chunk in run(test)}
    assert {index: chunk["text"] for index, chunk in last.items()} == {0: "abc", 1: "abc", 2: "de", 3: "de"}
    assert all(chunk["meta_info"]["finish_reason"] for chunk in last.values())


def test_embeddings() -> None:
    async def test(_: Backend, made: TokenizerManager) -> list[Any]:
        return await collect(made, EmbeddingReqInput(text="ab"))

    (output,) = run(test)
    assert output["embedding"] == [97.0, 98.0]
    assert output["meta_info"]["prompt_tokens"] == 2


def test_logprobs_come_when_asked_for() -> None:
    async def test(_: Backend, made: TokenizerManager) -> Output:
        return await answer(made, "ab", return_logprob=True)

    meta = run(test)["meta_info"]
    assert meta["output_token_logprobs"] == [(0.0, 97, None), (-1.0, 98, None)]
    assert "output_top_logprobs" not in meta


def test_hidden_states_come_when_asked_for() -> None:
    async def test(_: Backend, made: TokenizerManager) -> Output:
        return await answer(made, "ab", return_hidden_states=True)

    assert run(test)["meta_info"]["hidden_states"] == [[0.0, 0.5], [1.0, 0.5]]


def test_a_stop_string_ends_the_request_everywhere() -> None:
    async def test(backend: Backend, made: TokenizerManager) -> Output:
        asked = GenerateReqInput(text="one.two.three", sampling_params={**GREEDY, "stop": "."})
        output = await only(made, asked)
        assert len([message for message in backend.sent if isinstance(message, AbortReq)]) == 1
        return output

    output = run(test)
    assert output["text"] == "one"
    assert output["meta_info"]["finish_reason"] == {"type": "stop", "matched": "."}
    assert output["meta_info"]["prompt_tokens"] == 13


def test_long_prompts_do_not_block_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    async def to_thread(function: Callable[..., T], *args: object) -> T:
        threads.append(len(args))
        await asyncio.sleep(0)
        return function(*args)

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    limits = replace(LIMITS, context_length=10**6, max_req_input_len=10**6)

    async def test(_: Backend, made: TokenizerManager) -> None:
        long = "x" * (THREAD_CHARS + 1)
        both = await asyncio.gather(
            collect(made, GenerateReqInput(text=long, sampling_params={"max_new_tokens": 1})), answer(made, "short")
        )
        assert both[1]["text"] == "short"

    run(test, limits=limits)
    assert len(threads) == 1


# -- refusals


def test_refusals_leave_nothing_behind() -> None:
    async def test(backend: Backend, made: TokenizerManager) -> None:
        for fields in (
            {"text": ["ok", "x" * 101]},
            {"text": "a", "sampling_params": {"top_p": 2}},
            {"text": "a", "session_params": {"id": "unknown"}},
        ):
            with pytest.raises(RequestError) as caught:
                await collect(made, GenerateReqInput(**fields))
            assert caught.value.status == 400
        assert backend.sent == []

    run(test)


def test_a_name_is_used_once_at_a_time() -> None:
    async def test(backend: Backend, made: TokenizerManager) -> None:
        first = asyncio.create_task(answer(made, "a", rid="r"))
        await settle()
        with pytest.raises(RequestError, match="'r' is the name of a live request"):
            await answer(made, "b", rid="r")
        backend.step()
        assert (await first)["text"] == "a"
        backend.paused = False
        assert (await answer(made, "b", rid="r"))["text"] == "b"

    run(test, paused=True)


def test_overload_is_refused_with_a_time_to_come_back() -> None:
    async def test(backend: Backend, made: TokenizerManager) -> None:
        live = [asyncio.create_task(answer(made, "a")) for _ in range(2)]
        await settle()
        for text in ("b", ["b", "c"]):
            with pytest.raises(RequestError, match="2 requests are live and 2 are allowed") as caught:
                await collect(made, GenerateReqInput(text=text))
            assert caught.value.status == 503
            assert caught.value.retry_after_s is not None
            assert 1 <= caught.value.retry_after_s <= 60
        backend.step()
        assert [output["text"] for output in await asyncio.gather(*live)] == ["a", "a"]

    run(test, paused=True, limits=replace(LIMITS, max_requests=2))


# -- ends that callers bring about


def test_whoever_stops_listening_ends_the_request() -> None:
    async def test(backend: Backend, made: TokenizerManager) -> None:
        stream = made.generate_request(GenerateReqInput(text="abc", sampling_params={**GREEDY, "n": 2}, stream=True))
        first = asyncio.ensure_future(anext(stream))
        await settle()
        backend.step()
        await first
        await stream.aclose()
        assert backend.running == {}
        waiting = asyncio.create_task(answer(made, "abc"))
        await settle()
        assert len(backend.running) == 1
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert backend.running == {}

    run(test, paused=True)


def test_abort_request_ends_all_outputs_of_a_name() -> None:
    async def test(backend: Backend, made: TokenizerManager) -> None:
        params = {**GREEDY, "n": 2}
        first = asyncio.create_task(collect(made, GenerateReqInput(text="abc", sampling_params=params, rid="r")))
        second = asyncio.create_task(answer(made, "abc", rid="r-9"))
        await settle()
        backend.step()
        await settle()
        assert made.abort_request("nobody") == 0
        assert made.abort_request("") == 0
        assert made.abort_request("r") == 2
        (outputs,) = await first
        assert [output["text"] for output in outputs] == ["a", "a"]
        assert outputs[0]["meta_info"]["finish_reason"] == {"type": "abort", "message": "aborted on request"}
        assert made.abort_request(abort_all=True) == 1
        assert (await second)["text"] == "a"
        assert backend.running == {}

    run(test, paused=True)


def test_a_request_aborted_while_it_is_tokenised_is_never_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(backend: Backend, made: TokenizerManager) -> None:
        async def to_thread(function: Callable[..., T], *args: object) -> T:
            made.abort_request("r")
            return function(*args)

        monkeypatch.setattr(asyncio, "to_thread", to_thread)
        (output,) = await collect(made, GenerateReqInput(text="x" * (THREAD_CHARS + 1), rid="r"))
        assert isinstance(output, dict)
        reason = output["meta_info"]["finish_reason"]
        assert reason is not None
        assert reason["type"] == "abort"
        assert backend.sent == []

    run(test, limits=replace(LIMITS, context_length=10**6, max_req_input_len=10**6))


def test_an_update_waits_for_requests_and_requests_wait_for_it() -> None:
    async def test(backend: Backend, made: TokenizerManager) -> None:
        log = []

        async def update() -> None:
            async with made.quiesced():
                log.append(f"update with {len(made.inflight)} live")
                await settle()
                log.append("updated")

        before = asyncio.create_task(answer(made, "a"))
        await settle()
        updating = asyncio.create_task(update())
        await settle()
        after = asyncio.create_task(answer(made, "b"))
        await settle()
        assert len(backend.running) == 1
        backend.paused = False
        backend.schedule()
        await before
        await updating
        log.append((await after)["text"])
        assert log == ["update with 0 live", "updated", "b"]

    run(test, paused=True)


# -- sessions and control


def test_a_session_goes_on_where_it_was() -> None:
    async def test(backend: Backend, made: TokenizerManager) -> None:
        name = await made.open_session(capacity=20)
        for offset, prompt in ((-1, "ab"), (-1, "c"), (1, "z"), (-1, "d")):
            await answer(made, prompt, session_params={"id": name, "offset": offset})
        prompts = [bytes(i32(m.tokens).tolist()) for m in backend.sent if isinstance(m, TokenizedGenerateReqInput)]
        assert prompts == [b"ab", b"ababc", b"az", b"ababcababcd"]
        with pytest.raises(RequestError, match="may have 20 tokens"):
            await answer(made, "x", session_params={"id": name})
        await made.close_session(name)
        with pytest.raises(RequestError, match="there is no session"):
            await made.close_session(name)

    run(test)


def test_control_calls_go_to_every_replica() -> None:
    async def test(_: Backend, made: TokenizerManager) -> None:
        assert [reply.replica for reply in await made.control.flush_cache()] == [0]

    run(test)


def test_a_message_that_cannot_be_handled_is_counted() -> None:
    async def main() -> int:
        made = manager(Backend())
        bad = BatchStrOut(
            replica=0, uids=b"", epochs=b"1234", positions=b"", counts=b"", tokens=b"", texts=(), text_offsets=b""
        )
        made.deliver([bad])
        return made.num_errors

    assert asyncio.run(main()) == 1


def test_run_hears_and_watches_until_cancelled() -> None:
    async def main() -> Output:
        backend = Backend()
        made = manager(backend)
        task = asyncio.create_task(made.run())
        output = await answer(made, "ab")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return output

    assert asyncio.run(main())["text"] == "ab"


def test_the_tracer_hears_of_every_stage_in_order() -> None:
    tracer = Recorder()

    async def test(_: Backend, made: TokenizerManager) -> None:
        await answer(made, "abc")

    run(test, tracer=tracer)
    assert [name for name, _, _ in tracer.events] == [
        "TokenizerManager.generate_request",
        "TokenizerManager.tokenize",
        "TokenizerManager.send",
        "TokenizerManager.receive",
        "TokenizerManager.finish",
    ]
    assert {uid for _, uid, _ in tracer.events} == {0}
