import numpy as np

from banyan.sampling.noise import uniform


def test_is_a_function_of_seed_and_position() -> None:
    seeds = np.array([7, 7, 8], np.int64)
    positions = np.array([3, 4, 3], np.int32)
    first = uniform(seeds, positions)
    assert np.array_equal(first, uniform(seeds, positions))
    assert len(set(first.tolist())) == 3


def test_lies_in_the_unit_interval_and_is_even() -> None:
    grid = uniform(np.repeat(np.arange(200), 500), np.tile(np.arange(500, dtype=np.int32), 200))
    assert grid.min() >= 0
    assert grid.max() < 1
    counts = np.histogram(grid, bins=50, range=(0, 1))[0]
    # 100,000 draws in 50 bins: 2,000 each, with a standard deviation of 44.
    assert np.abs(counts - 2000).max() < 5 * 44


def test_neighbours_are_unrelated() -> None:
    positions = np.arange(20_000, dtype=np.int32)
    one = uniform(np.full(20_000, 1, np.int64), positions)
    two = uniform(np.full(20_000, 2, np.int64), positions)
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.03
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 0.03
