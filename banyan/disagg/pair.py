"""What both roles of a prefill-decode pair agree on without talking."""

from collections.abc import Callable

from banyan.disagg.links.base import Key
from banyan.sched.req import Req
from banyan.wire.output import FinishReason

Finish = Callable[[Req, FinishReason, float], None]  # Scheduler.finish

DEFAULT_LEASE_S = 10.0  # longest time that one side holds memory for the other


def key_of(req: Req) -> Key:
    """Name this incarnation of a request."""
    return Key(req.uid, req.ask.epoch)


def travels(req: Req) -> bool:
    """Tell whether a request is prefilled on one server and decoded on the other.

    The decode server does alone what has no decoding, and what wants log-probabilities or hidden states:
    they do not cross the link."""
    return req.length_limit > len(req.tokens) and req.logprobs is None and req.hidden is None
