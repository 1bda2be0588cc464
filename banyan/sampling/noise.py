"""uniform: chance as a function of (seed, position), so that a resumed request draws what it would have drawn."""

import numpy as np

from banyan.wire.base import I32, I64

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def uniform(seeds: I64, positions: I32) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Draw one number in [0, 1) for each (seed, position); neighbours of either are unrelated."""
    words = _mix(seeds.astype(np.uint64) + _GOLDEN)
    words = _mix(words ^ (positions.astype(np.uint64) * _GOLDEN))
    # 53 bits: exactly what a double holds, so 1.0 is never drawn.
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(words: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Scramble 64 bits (the finaliser of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * _MIX_1
    words = (words ^ (words >> np.uint64(27))) * _MIX_2
    return words ^ (words >> np.uint64(31))
