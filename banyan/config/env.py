"""The environment: the BANYAN_* variables and the few others that matter. Nothing else reads os.environ."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

PREFIX = "BANYAN_"

# Variables that are no settings, because they must be known before there is a config.
CACHE_DIR = "BANYAN_CACHE_DIR"
OWN_VARIABLES = (CACHE_DIR,)

# Variables of others that are honoured, by banyan or by what it builds on.
_HONOURED = frozenset(
    ("XDG_CACHE_HOME", "TMPDIR", "HF_HOME", "HF_TOKEN", "HF_HUB_OFFLINE", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
)
_SECRET = re.compile(r"(?:^|_)(?:\w*KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)(?:_|$)")
_MASK = "***"

_SERVICE_LINK = re.compile(
    rf"{PREFIX}(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


def setting_variables(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the BANYAN_* variables that ask for a setting. An empty one counts as not set, as in compose files."""
    return {
        name: value
        for name, value in environ.items()
        if name.startswith(PREFIX) and value and name not in OWN_VARIABLES
    }


def effective_variables(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return every variable that changes what banyan does, by name; what is secret is masked."""
    found = {name: value for name, value in environ.items() if value and (name.startswith(PREFIX) or name in _HONOURED)}
    return {name: _MASK if _SECRET.search(name) else found[name] for name in sorted(found)}


def wants_colour(environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether a terminal may be written to with more than plain text; see no-color.org."""
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def is_service_link(name: str) -> bool:
    """Tell whether Kubernetes may have set this: it does so in every pod for a service called banyan-something."""
    return _SERVICE_LINK.fullmatch(name) is not None


def cache_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for what may be kept between runs; it need not exist."""
    if own := environ.get(CACHE_DIR):
        return Path(own).expanduser()
    if shared := environ.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser() / "banyan"
    return Path.home() / ".cache" / "banyan"


def with_variables(changes: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment for a child process in which some variables are others."""
    return {**environ, **changes}
