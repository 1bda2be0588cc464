"""The eight names of the seed, and the shape behind each."""

import pytest

from banyan.sched.select import DisaggMode, LoopShape, select_loop

TABLE: list[tuple[DisaggMode, int, int, LoopShape]] = [
    ("null", 1, 1, LoopShape("event_loop_normal", 1, True, "null")),
    ("null", 1, 2, LoopShape("event_loop_overlap", 2, True, "null")),
    ("null", 4, 1, LoopShape("event_loop_pp", 4, False, "null")),
    ("prefill", 1, 1, LoopShape("event_loop_normal_disagg_prefill", 1, True, "prefill")),
    ("prefill", 1, 3, LoopShape("event_loop_overlap_disagg_prefill", 3, True, "prefill")),
    ("prefill", 2, 1, LoopShape("event_loop_pp_disagg_prefill", 2, False, "prefill")),
    ("decode", 1, 1, LoopShape("event_loop_normal_disagg_decode", 1, True, "decode")),
    ("decode", 1, 2, LoopShape("event_loop_overlap_disagg_decode", 2, True, "decode")),
]


@pytest.mark.parametrize(("mode", "pp_size", "depth", "shape"), TABLE)
def test_each_name_of_the_seed(mode: DisaggMode, pp_size: int, depth: int, shape: LoopShape) -> None:
    assert select_loop(mode, pp_size, depth) == shape


def test_the_table_has_the_eight_names() -> None:
    assert len({shape.name for *_, shape in TABLE}) == 8


@pytest.mark.parametrize("mode", ["null", "prefill", "decode"])
def test_a_pipeline_comes_before_overlap_in_every_mode(mode: DisaggMode) -> None:
    """The seed tests overlap first on a prefill server; here the order is the same everywhere."""
    shape = select_loop(mode, 4, 2)
    assert shape.name.startswith("event_loop_pp")
    assert not shape.chained
    assert shape.depth == 4


def test_a_pipeline_may_be_deeper_than_its_stages_but_never_shallower() -> None:
    assert select_loop("null", 2, 5).depth == 5
    assert select_loop("null", 4, 1).depth == 4
