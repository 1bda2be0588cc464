"""The environment: the BANYAN_* variables and the few others that matter. Nothing else reads os.environ."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

PREFIX = "BANYAN_"

# Variables that are no settings, because they must be known before there is a config.
CACHE_DIR = "BANYAN_CACHE_DIR"
OWN_VARIABLES = (CACHE_DIR,)

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
