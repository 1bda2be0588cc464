"""Front: the limits it goes by, and what it hears."""

import asyncio
from pathlib import Path

from banyan.launch.front import Front, Texts, make_limits
from banyan.launch.ports import PortArgs, RunDirectory
from banyan.launch.tree import Attachment
from banyan.text.request import GenerateReqInput
from banyan.wire.channel import PullChannel, PushChannel
from banyan.wire.codec import Codec
from banyan.wire.control import ControlReply, ToFront, ToScheduler
from banyan.wire.request import AbortReq, TokenizedGenerateReqInput
from tests.unit.launch.settle import settle


def attachment(directory: Path) -> Attachment:
    return Attachment(
        settled=settle(context_length=500, max_running_requests=3, max_queued_requests=5),
        ports=PortArgs(directory=str(directory), dp_size=1, num_fronts=2),
        max_total_num_tokens=400,
        max_req_input_len=399,
    )


def test_limits_are_the_smaller_of_what_is_allowed_and_what_fits() -> None:
    limits = make_limits(attachment(Path("/run/x")))
    assert (limits.context_length, limits.max_req_input_len, limits.max_requests) == (400, 399, 8)
    assert (limits.vocab_size, limits.is_generation, limits.is_embedding) == (259, True, True)


def test_what_comes_meanwhile_comes_at_once(tmp_path: Path) -> None:
    async def main() -> list[int]:
        channel: PullChannel[ToFront] = PullChannel(f"ipc://{directory.path}/x", Codec(ToFront))
        sender: PushChannel[ToFront] = PushChannel(f"ipc://{directory.path}/x", Codec(ToFront))
        texts = Texts(channel)
        calls: list[int] = []
        async with asyncio.timeout(10):
            for call in range(20):
                sender.send(ControlReply(front=0, call=call, replica=0))
            while len(calls) < 20:
                calls += [message.call for message in await texts.receive() if isinstance(message, ControlReply)]
        sender.close()
        channel.close()
        return calls

    directory = RunDirectory.create(tmp_path)
    assert asyncio.run(main()) == list(range(20))
    directory.remove()


def test_closing_a_front_ends_its_requests(tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path)
    made = attachment(directory.path)

    async def ask(front: Front) -> object:
        source = front.manager.generate_request(GenerateReqInput(text="hello"))
        return [answer async for answer in source]

    async def main() -> list[type]:
        scheduler: PullChannel[ToScheduler] = PullChannel(made.ports.requests, Codec(ToScheduler))
        front = Front(made, index=1)
        asking = asyncio.create_task(ask(front))
        heard: list[ToScheduler] = []
        async with asyncio.timeout(10):
            while not heard:
                await asyncio.sleep(0.001)
                heard += scheduler.drain()
            await front.close()
            await asking
            while len(heard) < 2:
                await asyncio.sleep(0.001)
                heard += scheduler.drain()
        scheduler.close()
        return [type(message) for message in heard]

    assert asyncio.run(main()) == [TokenizedGenerateReqInput, AbortReq]
    directory.remove()
