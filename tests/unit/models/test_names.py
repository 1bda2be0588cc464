"""Tests of banyan.models.names."""

import torch

from banyan.models.names import Entry, Source, merged, minus_one, module, targets, tensor, unpaired
from banyan.weights.assign import Target


def test_a_table_is_written_out_for_layers_and_experts() -> None:
    names = {
        "norm.weight": Source((Entry("n"),)),
        "layers.{i}.x": Source((Entry("l{i}.e{e}.gate"), Entry("l{i}.e{e}.up")), (Entry("b{i}.all"),)),
    }
    assert targets(names, "hf", [4, 7], 2) == {
        "n": Target("norm.weight"),
        **{
            f"l{i}.e{e}.{name}": Target(f"layers.{i}.x", part, e)
            for i in (4, 7)
            for e in (0, 1)
            for part, name in enumerate(("gate", "up"))
        },
    }
    assert targets(names, "gguf", [4], 2) == {"b4.all": Target("layers.4.x")}


def test_modules_have_weights_and_biases() -> None:
    assert module("a", "h", "g", minus_one) == {
        f"a.{kind}": Source((Entry(f"h.{kind}"),), (Entry(f"g.{kind}", minus_one),)) for kind in ("weight", "bias")
    }
    assert tensor("a", "h") == {"a": Source((Entry("h"),))}
    assert merged("m", ("x", "y"), ("z",))["m.bias"] == Source((Entry("x.bias"), Entry("y.bias")), (Entry("z.bias"),))


def test_the_order_of_llama_cpp_is_undone() -> None:
    rows = torch.arange(12.0)[:, None] * torch.ones(2)
    permuted = rows.reshape(2, 2, 3, 2).swapaxes(1, 2).reshape(12, 2)
    assert permuted[:4, 0].tolist() == [0, 3, 1, 4]
    assert torch.equal(unpaired(2)(permuted), rows)
    assert torch.equal(unpaired(2)(permuted[:, 0]), rows[:, 0])  # a bias
