"""Why requests are done: end-of-text and stop tokens, length, for all rows of a step at once."""

from banyan.sched.columns import STOP_IDS, Columns
from banyan.sched.req import Req
from banyan.wire.base import I32, Bool
from banyan.wire.output import FinishReason
from banyan.wire.request import SamplingParams, TokenizedGenerateReqInput


def ends(columns: Columns, slots: I32, tokens: I32) -> Bool:
    """Mark the rows whose newest token ends them. `known` counts that token already."""
    known = columns.known[slots]
    stopped: Bool = (columns.stop_ids[slots] == tokens[:, None]).any(axis=1)
    ended: Bool = (stopped & (known > columns.stop_floor[slots])) | (known >= columns.limit[slots])
    return ended


def ends_by_rare_stop(req: Req, columns: Columns, token: int, eos_ids: tuple[int, ...]) -> bool:
    """Check a request that has more stop tokens than its row of the column holds."""
    ask = req.ask
    if not isinstance(ask, TokenizedGenerateReqInput) or columns.known[req.slot] <= columns.stop_floor[req.slot]:
        return False
    wanted = ask.sampling.stop_token_ids + (() if ask.sampling.ignore_eos else eos_ids)
    return token in wanted[STOP_IDS:]


def reason(columns: Columns, req: Req, token: int, eos_ids: tuple[int, ...]) -> FinishReason:
    """Say why a request that has ended did so. A stop token counts before the length."""
    ask = req.ask
    beyond_floor = columns.known[req.slot] > columns.stop_floor[req.slot]
    if isinstance(ask, TokenizedGenerateReqInput) and beyond_floor:
        return _stop(ask.sampling, token, eos_ids) or FinishReason(kind="length")
    return FinishReason(kind="length")


def ended_before(req: Req, eos_ids: tuple[int, ...]) -> FinishReason | None:
    """Say why a request that comes back with all of its output needs no more. None: it goes on."""
    ask, num_output = req.ask, len(req.tokens) - req.prompt_len
    if not isinstance(ask, TokenizedGenerateReqInput) or not num_output:
        return None
    stopped = _stop(ask.sampling, int(req.tokens[-1]), eos_ids) if num_output > ask.sampling.min_new_tokens else None
    return stopped or (FinishReason(kind="length") if num_output >= req.max_new_tokens else None)


def _stop(sampling: SamplingParams, token: int, eos_ids: tuple[int, ...]) -> FinishReason | None:
    if token in sampling.stop_token_ids or (token in eos_ids and not sampling.ignore_eos):
        return FinishReason(kind="stop", matched=token)
    return None
