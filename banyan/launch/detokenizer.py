"""run_detokenizer_process: the detokenizer and its sockets."""

import time
from collections.abc import Callable
from pathlib import Path

from banyan.launch.child import Life, run_child
from banyan.obs.flight import FlightRecord
from banyan.obs.trace import Tracer
from banyan.text.detokenizer import DetokenizerManager
from banyan.text.tokenizer import load_tokenizer
from banyan.wire.channel import PullChannel, PushChannel
from banyan.wire.codec import Codec
from banyan.wire.control import ToDetokenizer, ToFront


def run_detokenizer_process(life: Life) -> None:
    """Turn tokens into text, and send each front its own, until the process ends."""
    args, config = life.args, life.args.settled.config
    tracer = Tracer(Path(config.observe.trace) if config.observe.trace else None, "detokenizer")
    manager = DetokenizerManager(load_tokenizer(args.settled.tokenizer), tracer)
    flight = FlightRecord(args.ports.record("detokenizer", args.index), num_slots=1)
    inbox: PullChannel[ToDetokenizer] = PullChannel(args.ports.tokens, Codec(ToDetokenizer))
    codec: Codec[ToFront] = Codec(ToFront)
    fronts = [PushChannel(args.ports.front(index), codec) for index in range(args.ports.num_fronts)]
    life.ready()
    idle_s = min(1.0, config.observe.watchdog_timeout_s / 4)  # an idle process, too, gives signs of life
    while True:
        flight.beat(time.monotonic(), busy=True)
        life.watchdog.beat()
        for message in inbox.drain():
            forward(manager, message, [front.send for front in fronts])
        inbox.wait(idle_s)


def forward(manager: DetokenizerManager, message: ToDetokenizer, fronts: list[Callable[[ToFront], object]]) -> None:
    """Send on what becomes of a message. What is addressed to a front that is not there has nowhere to go."""
    for front, answer in manager.process(message):
        if 0 <= front < len(fronts):
            fronts[front](answer)


if __name__ == "__main__":
    run_child(run_detokenizer_process)
