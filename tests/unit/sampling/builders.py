"""Admissions for tests of sampling."""

import numpy as np
import torch

from banyan.plan import Admission
from banyan.sampling.state import SamplingState
from banyan.wire.request import SamplingParams

VOCAB = 50
EOS = (1,)


def admission(
    slot: int, sampling: SamplingParams, seed: int = 0, prompt: tuple[int, ...] = (2, 3), output: tuple[int, ...] = ()
) -> Admission:
    """Make the admission of a request."""
    history = np.array(prompt + output, np.int32)
    return Admission(
        slot=slot, uid=slot, epoch=0, sampling=sampling, seed=seed, prompt_len=len(prompt), history=history
    )


def state(*admissions: Admission) -> SamplingState:
    """Make the state of some slots."""
    built = SamplingState(64, VOCAB, EOS, torch.device("cpu"))
    for one in admissions:
        built.admit(one)
    return built
