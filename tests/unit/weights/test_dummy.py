import torch

from banyan.weights.dummy import fill_dummy


def parameters() -> dict[str, torch.Tensor]:
    return {
        "up.weight": torch.empty(1500, 1000),
        "down.weight": torch.empty(300, 400, dtype=torch.bfloat16),
        "norm.weight": torch.empty(64),
        "up.bias": torch.empty(64),
    }


def test_values_depend_on_seed_and_name_alone() -> None:
    first, second = parameters(), dict(reversed(parameters().items()))
    fill_dummy(first, seed=3)
    fill_dummy(second, seed=3)
    assert all(torch.equal(first[name], second[name]) for name in first)
    alone = {"down.weight": parameters()["down.weight"]}
    fill_dummy(alone, seed=3)
    assert torch.equal(alone["down.weight"], first["down.weight"])
    fill_dummy(second, seed=4)
    assert not torch.equal(first["down.weight"], second["down.weight"])


def test_sizes_suit_a_network() -> None:
    filled = parameters()
    fill_dummy(filled)
    assert abs(float(filled["up.weight"].std()) * 1000**0.5 - 0.5) < 0.01
    assert abs(float(filled["norm.weight"].mean()) - 1) < 0.02
    assert abs(float(filled["up.bias"].mean())) < 0.02
    rows = filled["up.weight"]
    assert not torch.equal(rows[0], rows[1])
    assert all(bool(tensor.isfinite().all()) for tensor in filled.values())
