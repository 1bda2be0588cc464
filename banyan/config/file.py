"""The config file: YAML, nested by group or flat by flag name, read as text so that one parser serves all sources."""

from dataclasses import dataclass
from pathlib import Path

import yaml

from banyan.config.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Entry:
    """One key and its value, and where they stand."""

    key: str
    value: object
    where: str


def read_yaml(path: Path) -> list[Entry]:
    """List the entries of a config file. Groups become dotted keys; every value is still text.

    Only the nodes are read, never objects made from them: `null` and `no` stay the words that were written,
    line numbers are at hand, and a key that stands twice is seen.
    """
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise ConfigError(f"cannot read the config file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"cannot read the config file {path}: it is not UTF-8 text") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"the config file {path} is not YAML: {' '.join(str(error).split())}") from None
    if root is None or _is_empty(root):
        return []
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(f"the config file {path} must hold `name: value` lines")
    return _entries(root, path, "")


def _entries(mapping: yaml.MappingNode, path: Path, prefix: str) -> list[Entry]:
    entries: list[Entry] = []
    for key, value in mapping.value:
        where = f"{path} line {key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"{where}: a name is expected before the colon")
        name = f"{prefix}{key.value}"
        if _is_empty(value):
            continue
        if isinstance(value, yaml.ScalarNode):
            entries.append(Entry(key=name, value=value.value, where=f"{where}, {name}"))
        elif isinstance(value, yaml.MappingNode) and not prefix:
            entries.extend(_entries(value, path, f"{name}."))
        else:
            raise ConfigError(f"{where}: {name} must have a single value")
    return entries


def _is_empty(node: yaml.Node) -> bool:
    """Tell whether nothing is written here, as after the name of a group whose settings are commented out."""
    return isinstance(node, yaml.ScalarNode) and node.value == "" and node.style is None
