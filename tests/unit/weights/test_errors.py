from banyan.weights.errors import WeightError


def test_both_sides_are_listed_and_long_lists_cut() -> None:
    error = WeightError([f"t{number}" for number in range(25)], ["norm.weight"], ["x has shape [1]"])
    said = str(error)
    assert "tensors that fit nowhere (25): t0, t1" in said
    assert "t19 and 5 more" in said
    assert "parameters without a tensor (1): norm.weight" in said
    assert "and also (1): x has shape [1]" in said
    assert len(error.unused) == 25
    assert "fit nowhere" not in str(WeightError([], ["a"], []))
