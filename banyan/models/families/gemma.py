"""Gemma 2 and the text part of Gemma 3."""

from banyan.config.architecture import Architecture
from banyan.models.names import Family, Names, attention, head_norms, minus_one, mlp, outer, sandwich_norms
from banyan.models.spec import decoder_spec


def names(shape: Architecture) -> Names:
    """Name the tensors."""
    del shape
    return {**outer(minus_one), **sandwich_norms(minus_one), **attention(), **head_norms(minus_one), **mlp()}


def ignored(shape: Architecture) -> tuple[str, ...]:
    """Pass over what a model that also sees has beside its text part."""
    del shape
    return ("*vision_tower.*", "*multi_modal_projector.*")


FAMILY = Family(
    decoder_spec,
    names,
    prefixes=("model.language_model.", "language_model.model.", "language_model.", "model."),
    ignored=ignored,
)
