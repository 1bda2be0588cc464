import numpy as np
import torch

from banyan.weights.superblocks import q4_k, q6_k


def test_a_superblock_by_hand() -> None:
    # Scale 2, offset 1; group 0 has scale 3 and offset 5, all others none; the first number is 15, the others 0.
    raw = bytearray(144)
    raw[:4] = np.array([2, 1], np.float16).tobytes()
    raw[4], raw[8], raw[16] = 3, 5, 15
    numbers = q4_k(torch.frombuffer(raw, dtype=torch.uint8).view(1, -1))[0]
    assert numbers[0] == 2 * 3 * 15 - 5
    assert numbers[1:32].tolist() == [-5.0] * 31
    assert numbers[32:].count_nonzero() == 0


def test_six_bits_are_four_and_two() -> None:
    raw = bytearray(210)
    raw[0], raw[128], raw[192] = 0x0F, 0b11, 1  # all six bits of the first number, scale 1 of its group
    raw[208:] = np.array([0.5], np.float16).tobytes()
    numbers = q6_k(torch.frombuffer(raw, dtype=torch.uint8).view(1, -1))[0]
    assert numbers[0] == (63 - 32) * 0.5
    assert numbers[1:16].tolist() == [-16.0] * 15
    assert numbers[16:].count_nonzero() == 0
