"""forward: each front gets its own, and a front that is not there gets nothing."""

from banyan.launch.detokenizer import forward
from banyan.obs.trace import Tracer
from banyan.text.detokenizer import DetokenizerManager
from banyan.text.tokenizer import byte_tokenizer
from banyan.wire.control import ControlReply, ToFront


def test_answers_go_to_the_front_that_asked() -> None:
    manager = DetokenizerManager(byte_tokenizer(), Tracer(None, "test"))
    heard: list[list[ToFront]] = [[], []]
    replies = [ControlReply(front=front, call=7, replica=0) for front in (1, 0, 5)]
    for reply in replies:
        forward(manager, reply, [heard[0].append, heard[1].append])
    assert heard == [[replies[1]], [replies[0]]]
