"""install_audit_hook(): from then on, unpickling anything in this process is an error."""

import sys


class UnpickleError(RuntimeError):
    """Something in this process tried to unpickle."""


def install_audit_hook() -> None:
    """Refuse every global that an unpickler looks up. The interpreter offers no way to take a hook back."""
    sys.addaudithook(_refuse)


def _refuse(event: str, args: tuple[object, ...]) -> None:
    if event == "pickle.find_class":
        raise UnpickleError(f"unpickling of {args[0]}.{args[1]} refused: nothing here may unpickle")
