"""Random weather over a whole server: every request is answered, rightly and once, or is the convicted poison."""

import random

import pytest

from tests.fakes.count import Count
from tests.fakes.server import Shape
from tests.simulation.network import Weather
from tests.simulation.world import Plan, World

LOOPS = ((1, True), (2, True), (4, True), (3, False))


def make_plan(seed: int) -> Plan:
    """Draw what is simulated: calm or stormy, large or small, with or without poison."""
    rng = random.Random(seed)
    depth, chained = rng.choice(LOOPS)
    page_size = rng.choice([1, 4, 16])
    shape = Shape(
        depth=depth,
        chained=chained,
        stages=1 if chained else depth,
        cache=rng.choice(["radix", "radix", "chunk"]),
        page_size=page_size,
        num_pages=rng.choice([112, 300, 1200]) // page_size,
        num_slots=rng.choice([3, 8, 32]),
        token_budget=rng.choice([16, 64]),
        stream_interval=rng.choice([1, 4]),
    )
    bad = rng.random() < 0.7
    weather = Weather(
        loss=rng.choice([0.0, 0.02, 0.1]) if bad else 0.0,
        double=rng.choice([0.0, 0.05, 0.3]) if bad else 0.0,
        delay=rng.choice([0.0, 0.05, 0.3]) if bad else 0.0,
        longest_delay_s=rng.choice([0.05, 3.0]),
        kills=rng.choice([0, 0, 1, 2, 4]),
    )
    return Plan(
        shape,
        weather,
        fronts=rng.choice([1, 1, 2]),
        replicas=rng.choice([1, 1, 2]),
        turn_s=rng.choice([0.002, 0.002, 0.05]),
        requests=rng.choice([4, 10, 20]),
        aborts=rng.choice([0, 0, 2]),
        killers=rng.choice([0, 0, 0, 1]),
        bombs=rng.choice([0, 0, 0, 1]),
    )


def simulate(seeds: range) -> int:
    """Run many worlds; on failure, say which. Returns the number of deaths survived."""
    deaths = 0
    for seed in seeds:
        plan = make_plan(seed)
        try:
            world = World(plan, seed)
            world.run()
        except Exception as error:
            raise AssertionError(f"seed {seed} failed ({plan}): {error}") from error
        deaths += world.deaths
    return deaths


def test_some_worlds(count: Count) -> None:
    seeds = range(80)
    assert simulate(seeds) > 40
    count("simulated servers, quick", len(seeds))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_many_worlds(part: int, count: Count) -> None:
    seeds = range(1_000 + 120 * part, 1_120 + 120 * part)
    assert simulate(seeds) > 60
    count("simulated servers", len(seeds))
