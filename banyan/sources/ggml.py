"""Block formats of GGML: how many numbers a block holds, and in how many bytes."""

from typing import Final, NamedTuple


class GGMLType(NamedTuple):
    """A way to store numbers in blocks."""

    name: str
    block_numbers: int
    block_bytes: int


# By the number that stands in a file. What is not listed cannot be read.
GGML_TYPES: Final = {
    0: GGMLType("F32", 1, 4),
    1: GGMLType("F16", 1, 2),
    2: GGMLType("Q4_0", 32, 18),
    3: GGMLType("Q4_1", 32, 20),
    6: GGMLType("Q5_0", 32, 22),
    7: GGMLType("Q5_1", 32, 24),
    8: GGMLType("Q8_0", 32, 34),
    10: GGMLType("Q2_K", 256, 84),
    11: GGMLType("Q3_K", 256, 110),
    12: GGMLType("Q4_K", 256, 144),
    13: GGMLType("Q5_K", 256, 176),
    14: GGMLType("Q6_K", 256, 210),
    20: GGMLType("IQ4_NL", 32, 18),
    23: GGMLType("IQ4_XS", 256, 136),
    30: GGMLType("BF16", 1, 2),
}
