import numpy as np
import numpy.typing as npt
import pytest
import torch
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize as reference

from banyan.sources.ggml import GGML_TYPES
from banyan.weights.dequantize import dequantize

ROWS = 6


def random_bytes(number: int, blocks: int) -> npt.NDArray[np.uint8]:
    """Make rows of blocks in which every bit is random, but no scale is infinite or not a number."""
    rng = np.random.default_rng(number)
    raw = rng.integers(0, 256, (ROWS, blocks * GGML_TYPES[number].block_bytes), np.uint8)
    # A 16-bit float is finite if not all bits of its exponent are set; those are in its second byte.
    raw[:, 1::2] &= 0xBF
    return raw


@pytest.mark.parametrize("number", GGML_TYPES, ids=lambda number: GGML_TYPES[number].name)
@pytest.mark.parametrize("blocks", [1, 3, 3000])
def test_equal_to_the_reference(number: int, blocks: int) -> None:
    kind = GGML_TYPES[number]
    raw = random_bytes(number, blocks if kind.block_numbers < 256 else min(blocks, 400))
    official = GGMLQuantizationType(number)
    viewed = raw.view({"F32": np.float32, "F16": np.float16}.get(kind.name, np.uint8))
    with np.errstate(all="ignore"):  # the few odd scales that are left overflow there as here
        wanted = reference(viewed, official).astype(np.float32)
    found = dequantize(torch.from_numpy(raw.reshape(-1)), kind, wanted.shape)
    assert found.dtype == torch.float32
    assert np.array_equal(found.numpy(), wanted, equal_nan=True)


@pytest.mark.parametrize("name", ["Q4_1", "Q6_K", "F16"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_other_types_are_rounded_once(name: str, dtype: torch.dtype) -> None:
    [number] = [number for number, kind in GGML_TYPES.items() if kind.name == name]
    kind = GGML_TYPES[number]
    raw = torch.from_numpy(random_bytes(number, 2).reshape(-1))
    shape = (ROWS, 2 * kind.block_numbers)
    assert torch.equal(
        dequantize(raw, kind, shape, dtype).nan_to_num(), dequantize(raw, kind, shape).to(dtype).nan_to_num()
    )
