"""load_state: a checkpoint's tensors into a model's parameters, by the names of its family."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from banyan.models.model import Model
from banyan.models.names import Style, targets
from banyan.weights.assign import Target, assign
from banyan.weights.source import WeightSource


def load_state(model: Model, source: WeightSource, style: Style = "hf") -> None:
    """Fill a model, or a stage of one, from a checkpoint, or raise WeightError with all that does not come out even."""
    found, known = model.slots(), _known(model, style)
    ignored = _ignored(model)
    here = tuple(f"layers.{i}." for i in model.body.layer_range)
    whole = len(model.body.layer_range) == model.shape.num_layers

    def target_of(name: str) -> Target | None:
        return next((known[plain] for plain in _plain_names(name, model.family.prefixes) if plain in known), None)

    def find(name: str) -> Target | None:
        target = target_of(name)
        return target if target is not None and target.parameter in found else None

    def skip(name: str) -> bool:
        if any(fnmatchcase(name, pattern) for pattern in ignored):
            return True
        target = target_of(name)
        if target is None:
            return False
        # It has a place in the network: if that is not here, it must be in another stage.
        return not target.parameter.startswith(here) if target.parameter.startswith("layers.") else not whole

    assign(found, source, find, skip)


def _known(model: Model, style: Style) -> dict[str, Target]:
    """Return the targets of all tensors of the whole network, whichever stage this is."""
    shape = model.shape
    names = model.family.names(shape)
    if shape.tie_embeddings and model.body.embed is None:
        names = {**names, "head.weight": names["embed.weight"]}  # a last stage keeps its own copy
        del names["embed.weight"]
    num_experts = shape.moe.num_experts if shape.moe is not None else 0
    return targets(names, style, range(shape.num_layers), num_experts)


def _ignored(model: Model) -> tuple[str, ...]:
    """Return the patterns of tensors that are not wanted, in either style."""
    shape = model.shape
    # Some files have a head even where it is the embedding, or where there is none.
    head = ("*lm_head.weight", "output.weight") if shape.tie_embeddings or shape.head != "lm" else ()
    rope = ("*rotary_emb.inv_freq", "rope_freqs.weight", "rope_factors_*.weight")  # known from the config
    return (*model.family.ignored(shape), *head, *rope)


def _plain_names(name: str, prefixes: tuple[str, ...]) -> Iterator[str]:
    """List what a name may be without one of its family's prefixes."""
    yield from (name.removeprefix(prefix) for prefix in prefixes if name.startswith(prefix))
    yield name
