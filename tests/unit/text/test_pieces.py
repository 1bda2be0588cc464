import numpy as np

from banyan.text.pieces import merges_of_pieces


def test_better_pieces_first_and_then_longer_halves() -> None:
    ids = {piece: number for number, piece in enumerate(["a", "b", "c", "ab", "bc", "abc", "<x>", "<", "x>"])}
    scores = np.array([0, 0, 0, -2, -1, -3, -1, 0, 0], np.float32)
    allowed = np.ones(len(ids), np.bool_)
    allowed[ids["<x>"]] = False
    assert merges_of_pieces(ids, scores, allowed) == [("b", "c"), ("a", "b"), ("ab", "c"), ("a", "bc")]


def test_nothing_of_nothing() -> None:
    assert merges_of_pieces({"a": 0}, np.zeros(1, np.float32), np.ones(1, np.bool_)) == []
