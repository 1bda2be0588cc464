"""Front: a TokenizerManager attached to a running tree, with its sockets. A tree may have several."""

import asyncio
import contextlib
from pathlib import Path

from banyan.launch.tree import Attachment
from banyan.obs.trace import Tracer
from banyan.text.manager import TokenizerManager
from banyan.text.request import Limits
from banyan.text.tokenizer import load_tokenizer
from banyan.wire.channel import PullChannel, PushChannel
from banyan.wire.codec import Codec
from banyan.wire.control import ToFront, ToScheduler


class Texts:
    """What comes for a front, as something to wait for."""

    def __init__(self, channel: PullChannel[ToFront]) -> None:
        self._taken: list[ToFront] = []
        self._arrived = asyncio.Event()
        channel.attach(self._deliver)

    async def receive(self) -> list[ToFront]:
        """Wait for messages; what came meanwhile comes at once."""
        await self._arrived.wait()
        self._arrived.clear()
        taken, self._taken = self._taken, []
        return taken

    def _deliver(self, messages: list[ToFront]) -> None:
        self._taken += messages
        self._arrived.set()


class Front:
    """One front of a tree, on the event loop that runs when it is made. Its number must be its alone."""

    def __init__(self, attachment: Attachment, index: int) -> None:
        settled, ports = attachment.settled, attachment.ports
        config = settled.config
        self._texts: PullChannel[ToFront] = PullChannel(ports.front(index), Codec(ToFront))
        self._requests: PushChannel[ToScheduler] = PushChannel(ports.requests, Codec(ToScheduler))
        self._tracer = Tracer(Path(config.observe.trace) if config.observe.trace else None, f"front{index}")
        self.manager = TokenizerManager(
            front=index,
            num_replicas=ports.dp_size,
            tokenizer=load_tokenizer(settled.tokenizer),
            limits=make_limits(attachment),
            requests=self._requests,
            texts=Texts(self._texts),
            tracer=self._tracer,
            probe_interval_s=config.recovery.probe_interval_s,
            seed=config.schedule.seed,
        )
        self._running = asyncio.create_task(self.manager.run())

    async def close(self) -> None:
        """End what is live, and let go of the sockets."""
        if self.manager.abort_request(abort_all=True):
            await asyncio.sleep(0.02)  # closing drops what is not yet sent, and somebody may still work for us
        self._running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._running
        self._texts.close()
        self._requests.close()
        self._tracer.close()


def make_limits(attachment: Attachment) -> Limits:
    """Gather what requests must keep to, from the config and from what the schedulers said when they were ready."""
    settled = attachment.settled
    schedule = settled.config.schedule
    return Limits(
        vocab_size=settled.vocab_size,
        context_length=min(settled.context_length, attachment.max_total_num_tokens),
        max_req_input_len=attachment.max_req_input_len,
        max_requests=schedule.max_queued_requests + attachment.ports.dp_size * settled.max_running_requests,
        is_generation=settled.card.is_generation,
        is_embedding=settled.card.architecture is None or not settled.card.is_generation,  # the oracle does both
    )
