"""Models of the Hugging Face hub, through its own client and cache. The client is optional and loaded when needed."""

import importlib
from pathlib import Path
from typing import Final, Protocol

from banyan.config.errors import suggest
from banyan.sources.errors import SourceError
from banyan.sources.local import MODEL_FILES, LocalModel, local_model

DEFAULT_QUANT: Final = "Q4_K_M"


class Hub(Protocol):
    """What is used of the client."""

    def snapshot_download(self, repo_id: str, *, allow_patterns: list[str], local_files_only: bool) -> str:
        """Fetch the files of a repository that match, unless they are here, and return their folder."""


def load_hub() -> Hub:
    """Load the client."""
    try:
        hub: Hub = importlib.import_module("huggingface_hub")
    except ImportError:
        raise SourceError(
            "models of the Hugging Face hub need its client: pip install huggingface_hub, or give a local folder"
        ) from None
    return hub


def from_hub(hub: Hub, repo: str, quant: str, download: bool) -> LocalModel:
    """Return a model of the hub: a folder of safetensors, or, if a quantisation is named, that GGUF file."""
    patterns = (
        [f"*{spelling}.gguf" for spelling in (quant, quant.lower(), quant.upper())] if quant else list(MODEL_FILES)
    )
    try:
        folder = Path(hub.snapshot_download(repo, allow_patterns=patterns, local_files_only=not download))
    except Exception as error:  # the client lets errors of several HTTP libraries through
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        hint = "check the name and the network, or pull it from elsewhere" if download else f"try `banyan pull {repo}`"
        raise SourceError(f"{repo} cannot be had from the Hugging Face hub: {first:.200}; {hint}") from error
    if not quant:
        return local_model(folder, name=repo)
    found = sorted(path for path in folder.rglob("*.gguf") if path.stem.lower().endswith(quant.lower()))
    if len(found) != 1:
        here = [path.name for path in sorted(folder.rglob("*.gguf"))]
        near = suggest(quant, here)
        raise SourceError(f"{repo} has {len(found)} files that end in {quant}.gguf instead of one{near}")
    return local_model(found[0], name=f"{repo}:{quant}")
