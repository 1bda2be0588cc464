from banyan.memory.ledger.node import Namespace, RadixNode
from tests.unit.memory.ledger.helpers import ints


def test_the_key_is_the_run_as_tokens() -> None:
    tokens = ints(5, 6, 7, 8)
    assert RadixNode(None, tokens.tobytes(), ints(1, 2), 1).key.tolist() == tokens.tolist()


def test_only_an_unlocked_leaf_of_the_tree_is_evictable() -> None:
    root = RadixNode(None, b"", ints(), 1)
    inner = RadixNode(root, ints(1).tobytes(), ints(1), 2)
    leaf = RadixNode(inner, ints(2).tobytes(), ints(2), 3)
    locked = RadixNode(inner, ints(3).tobytes(), ints(3), 4)
    inner.children = {leaf.run: leaf, locked.run: locked}
    locked.lock = 1
    assert [node.evictable for node in (root, inner, leaf, locked)] == [False, False, True, False]


def test_namespaces_differ_by_every_part() -> None:
    spaces = {Namespace("a", "", 0), Namespace("", "a", 0), Namespace("", "", 1), Namespace("", "", 0)}
    assert len(spaces) == 4
