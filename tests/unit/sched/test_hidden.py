"""HiddenBuffer: states in, one packed part a message out."""

import numpy as np

from banyan.sched.hidden import HiddenBuffer
from banyan.wire.base import f32


def test_states_are_packed_in_order_and_forgotten() -> None:
    buffer = HiddenBuffer()
    assert buffer.take(0) is None
    buffer.add(np.array([1, 2, 3], np.float32))
    buffer.add(np.array([4, 5, 6], np.float32))
    packed = buffer.take(7)
    assert packed is not None
    assert (packed.row, packed.dim) == (7, 3)
    assert f32(packed.values).tolist() == [1, 2, 3, 4, 5, 6]
    assert buffer.take(7) is None
