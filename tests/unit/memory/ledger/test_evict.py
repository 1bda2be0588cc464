import pytest

from banyan.memory.ledger.evict import EvictionPolicy, Frontier
from banyan.memory.ledger.node import RadixNode
from tests.unit.memory.ledger.helpers import ints

ROOT = RadixNode(None, b"", ints(), 0)


def _leaf(serial: int, tick: int = 0, hits: int = 0, priority: int = 0, born: int = 0) -> RadixNode:
    node = RadixNode(ROOT, ints(serial).tobytes(), ints(serial), serial)
    node.tick, node.hits, node.priority, node.born = tick, hits, priority, born
    return node


def _drain(frontier: Frontier) -> list[int]:
    order = []
    while (node := frontier.first()) is not None:
        order.append(node.serial)
        frontier.leave(node)
    return order


@pytest.mark.parametrize(
    ("policy", "order"),
    [("lru", [3, 1, 4, 2]), ("lfu", [4, 2, 3, 1]), ("fifo", [2, 4, 1, 3]), ("priority", [1, 2, 4, 3])],
)
def test_each_policy_has_its_order(policy: EvictionPolicy, order: list[int]) -> None:
    frontier = Frontier(policy)
    frontier.enter(_leaf(1, tick=20, hits=9, priority=-3, born=7))
    frontier.enter(_leaf(2, tick=40, hits=1, priority=0, born=5))
    frontier.enter(_leaf(3, tick=10, hits=2, priority=5, born=8))
    frontier.enter(_leaf(4, tick=30, hits=0, priority=1, born=6))
    assert _drain(frontier) == order


def test_ranks_of_two_parts_hold_for_extreme_numbers() -> None:
    for policy in ("lfu", "priority"):
        frontier = Frontier("lfu" if policy == "lfu" else "priority")
        frontier.enter(_leaf(1, tick=1 << 39, hits=1 << 60, priority=1 << 60))
        frontier.enter(_leaf(2, tick=1 << 39, hits=0, priority=-(1 << 60)))
        assert _drain(frontier) == [2, 1]


def test_one_that_left_is_not_found_and_may_come_back_at_its_new_rank() -> None:
    frontier = Frontier("lru")
    nodes = [_leaf(serial, tick=serial) for serial in range(1, 4)]
    for node in nodes:
        frontier.enter(node)
    frontier.leave(nodes[0])
    assert frontier.first() is nodes[1]
    nodes[0].tick = 9
    frontier.enter(nodes[0])
    assert _drain(frontier) == [2, 3, 1]
    assert frontier.num_leaves == 0


def test_a_colder_leaf_that_comes_later_goes_first() -> None:
    frontier = Frontier("lru")
    for tick in range(100, 3000):
        frontier.enter(_leaf(tick, tick=tick))
    assert frontier.first() is not None
    frontier.enter(_leaf(5, tick=5))
    assert _drain(frontier) == [5, *range(100, 3000)]


def test_order_holds_over_many_blocks_and_reuse_of_rows() -> None:
    frontier = Frontier("lru")
    nodes = [_leaf(serial, tick=(serial * 7919) % 5003) for serial in range(1, 5003)]
    for node in nodes:
        frontier.enter(node)
    for node in nodes[::3]:
        frontier.leave(node)
        node.tick += 10_000
        frontier.enter(node)
    assert frontier.num_leaves == len(frontier.leaves()) == len(nodes)
    ticks = {node.serial: node.tick for node in nodes}
    drained = [ticks[serial] for serial in _drain(frontier)]
    assert drained == sorted(ticks.values())


def test_rebuild_keeps_only_what_is_evictable() -> None:
    frontier = Frontier("lru")
    nodes = [_leaf(1, tick=1), _leaf(2, tick=2), _leaf(3, tick=3)]
    frontier.enter(nodes[0])
    nodes[0].lock = 1
    frontier.rebuild(nodes)
    assert [node.serial for node in frontier.leaves()] == [2, 3]
    assert _drain(frontier) == [2, 3]


def test_a_rank_changed_behind_its_back_is_not_among_the_leaves() -> None:
    frontier = Frontier("lru")
    node = _leaf(1, tick=1)
    frontier.enter(node)
    node.tick = 2
    assert frontier.leaves() == []
