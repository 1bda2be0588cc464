import numpy as np
import pytest
import torch

from banyan.weights.blocks import bits, halves, iq4_values, nibbles, q4_0, q8_0


def test_small_parts_are_read_where_they_lie() -> None:
    block = torch.tensor([[0, 0x3C, 0x21, 0b101, 0, 0x80]], dtype=torch.uint8)  # 1.0, a byte of nibbles, bits
    assert halves(block, 0).tolist() == [[1.0]]
    assert nibbles(block[:, 2:3]).tolist() == [[1, 2]]
    assert bits(torch.nn.functional.pad(block[:, 3:6], (0, 1)), 0)[0].nonzero().flatten().tolist() == [0, 2, 23]
    assert iq4_values(torch.tensor([[0, 15]], dtype=torch.uint8)).tolist() == [[-127.0, 113.0]]


@pytest.mark.parametrize("scale", [0.5, -2.0])
def test_a_block_by_hand(scale: float) -> None:
    head = np.array([scale], np.float16).tobytes()
    eight = torch.frombuffer(bytearray(head + bytes(range(32))), dtype=torch.uint8).view(1, -1)
    assert q8_0(eight)[0].tolist() == [scale * number for number in range(32)]
    four = torch.frombuffer(bytearray(head + bytes([0x80] * 16)), dtype=torch.uint8).view(1, -1)
    assert q4_0(four)[0].tolist() == [scale * -8] * 16 + [0.0] * 16
