"""WeightError: a checkpoint and a model that do not fit each other."""

from typing import Final

from banyan.config.errors import UserError

_SHOWN: Final = 20  # names in a message; the error has them all


class WeightError(UserError):
    """Tensors that fit nowhere, parameters that nothing fills, and what else is wrong."""

    def __init__(self, unused: list[str], missing: list[str], wrong: list[str]) -> None:
        self.unused = unused  # tensors that no parameter wants
        self.missing = missing  # parameters, or parts of them, that no tensor fills
        self.wrong = wrong  # tensors of another shape, or that fill what is filled
        found = {"tensors that fit nowhere": unused, "parameters without a tensor": missing, "and also": wrong}
        said = (f"{what} ({len(names)}): {_list(names)}" for what, names in found.items() if names)
        super().__init__("the checkpoint does not fit the model; " + "; ".join(said))


def _list(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
