"""argv, file, environment and keyword arguments -> EngineConfig, generic over the settings of the spec.

The command line goes before the environment, the environment before the file, the file before the defaults.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from banyan.config.env import is_service_link
from banyan.config.errors import ConfigError, suggest
from banyan.config.fields import Leaf, Value, all_leaves, as_text, changed, group_leaves
from banyan.config.file import Entry, read_yaml
from banyan.config.spec import EngineConfig, Group, about

_NOTHING: Mapping[str, str] = MappingProxyType({})
_ON = (True, "true")
_OFF = (False, "false")


class FileConfig(Group, frozen=True, kw_only=True):
    """Where more settings are; on the command line only, for a file that names a file has no end."""

    file: Annotated[str, about("Read settings from this YAML file.", "--config")] = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """One value for one leaf, and where it was given."""

    leaf: Leaf
    value: Value
    where: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the sources together ask for."""

    config: EngineConfig
    origins: Mapping[str, str]  # path -> where its value was given; a default is absent
    words: tuple[str, ...]  # what is left on the command line, in order
    extra: Mapping[str, Value]  # values of the settings that belong to the command, not to the engine


class Names:
    """Every way to call a setting, without dashes in front and with dashes inside."""

    def __init__(self, leaves: Iterable[Leaf]) -> None:
        self.leaves = tuple(leaves)
        self._leaf: dict[str, Leaf] = {}
        self._switch: dict[str, tuple[Leaf, Value]] = {}
        for leaf in self.leaves:
            for flag in (leaf.path_flag, *leaf.flags):
                self._leaf[plain(flag)] = leaf
            for flag, value in leaf.switches.items():
                self._switch[plain(flag)] = (leaf, value)

    def leaf(self, name: str) -> Leaf | None:
        """Find the setting that takes a value under this name."""
        return self._leaf.get(plain(name))

    def switch(self, name: str) -> tuple[Leaf, Value] | None:
        """Find the setting, and its fixed value, that a switch of this name means."""
        return self._switch.get(plain(name))

    def all(self) -> list[str]:
        """List every name."""
        return [*self._leaf, *self._switch]


def plain(name: str) -> str:
    """Bring a name into the form in which names are compared: `--memory.page_size` is `memory.page-size`."""
    return name.removeprefix("--").replace("_", "-")


ENGINE_LEAVES = all_leaves(EngineConfig)
FILE_LEAVES = group_leaves("config", FileConfig)


def read(argv: Sequence[str], variables: Mapping[str, str] = _NOTHING, extra: Sequence[Leaf] = ()) -> Loaded:
    """Read all sources; `extra` are settings of the command, which only the command line can give."""
    engine = Names(ENGINE_LEAVES)
    words, given = _read_argv(argv, Names((*ENGINE_LEAVES, *FILE_LEAVES, *extra)))
    merged = _merge(given)
    file = merged.pop(FILE_LEAVES[0].path, None)
    asked = _merge(_read_entries(read_yaml(Path(str(file.value))), engine)) if file else {}
    asked |= _merge(_read_variables(variables, engine))
    asked |= merged
    values = {path: setting.value for path, setting in asked.items()}
    own = {leaf.path: values.pop(leaf.path, leaf.default) for leaf in extra}
    return Loaded(
        config=changed(EngineConfig(), values),
        origins={path: asked[path].where for path in values},
        words=tuple(words),
        extra=own,
    )


def load(argv: Sequence[str], variables: Mapping[str, str] = _NOTHING) -> EngineConfig:
    """Read all sources, for a command that takes nothing but settings."""
    loaded = read(argv, variables)
    if loaded.words:
        raise ConfigError(f"{loaded.words[0]!r} is not a flag, and nothing but flags is expected here")
    return loaded.config


def from_options(options: Mapping[str, object], variables: Mapping[str, str] = _NOTHING) -> EngineConfig:
    """Read keyword arguments such as `page_size=16` or `memory_page_size=16`; they stand for the command line."""
    names = Names(ENGINE_LEAVES)
    paths = {leaf.path.replace(".", "_"): leaf.path for leaf in ENGINE_LEAVES}  # a keyword cannot have a dot
    entries = (Entry(key=paths.get(key, key), value=value, where=key) for key, value in options.items())
    asked = _merge(_read_variables(variables, names)) | _merge(_read_entries(entries, names))
    return changed(EngineConfig(), {path: setting.value for path, setting in asked.items()})


def _merge(settings: Iterable[Setting]) -> dict[str, Setting]:
    """Put the settings of one source under their paths. Two values for one path are refused: neither goes first."""
    merged: dict[str, Setting] = {}
    for setting in settings:
        first = merged.setdefault(setting.leaf.path, setting)
        if first.value != setting.value:
            raise ConfigError(
                f"{first.where} ({as_text(first.value)}) and {setting.where} ({as_text(setting.value)}) "
                f"both set {setting.leaf.path}; give only one of them"
            )
    return merged


def _read_argv(argv: Sequence[str], names: Names) -> tuple[list[str], list[Setting]]:
    """Split a command line into plain words and settings; after `--` all are plain words."""
    words: list[str] = []
    settings: list[Setting] = []
    rest = deque(argv)
    while rest:
        word = rest.popleft()
        if word == "--":
            words.extend(rest)
            break
        if word.startswith("-") and word != "-":
            settings.append(_read_flag(word, rest, names))
        else:
            words.append(word)
    return words, settings


def _read_flag(word: str, rest: deque[str], names: Names) -> Setting:
    """Read one flag, with its value from behind `=` or from the next word."""
    flag, equals, text = word.partition("=")
    if switch := names.switch(flag):
        if equals:
            raise ConfigError(f"{flag} is a switch: it takes no value, but {text!r} was given")
        return Setting(*switch, flag)
    leaf = names.leaf(flag)
    if leaf is None:
        raise ConfigError(f"unknown flag {flag}{suggest(flag, (f'--{name}' for name in names.all()))}")
    if not equals:
        text = _next_value(flag, leaf, rest)
    return Setting(leaf, leaf.parse(text, flag), flag)


def _next_value(flag: str, leaf: Leaf, rest: deque[str]) -> str:
    """Take the next word as a value; a yes-or-no flag needs none, and takes none but these two."""
    if leaf.is_bool:
        return rest.popleft() if rest and rest[0] in (*_ON, *_OFF) else "true"
    if not rest or rest[0].startswith("--"):
        raise ConfigError(f"{flag} needs a value: {leaf.allowed}")
    return rest.popleft()


def _read_variables(variables: Mapping[str, str], names: Names) -> Iterator[Setting]:
    leaves = {leaf.variable: leaf for leaf in names.leaves}
    for name, text in variables.items():
        if name not in leaves and is_service_link(name):
            continue
        if name not in leaves:
            raise ConfigError(f"unknown variable {name}{suggest(name, leaves)}")
        yield Setting(leaves[name], leaves[name].parse(text, name), name)


def _read_entries(entries: Iterable[Entry], names: Names) -> Iterator[Setting]:
    """Read names with values; a switch is a name whose value is true or false, and false asks for nothing."""
    for entry in entries:
        if switch := names.switch(entry.key):
            if entry.value not in (*_ON, *_OFF):
                raise ConfigError(f"{entry.where}: {entry.value!r} is not allowed; a switch is `true` or `false`")
            if entry.value in _ON:
                yield Setting(*switch, entry.where)
            continue
        leaf = names.leaf(entry.key)
        if leaf is None:
            raise ConfigError(f"{entry.where}: unknown setting {entry.key}{suggest(plain(entry.key), names.all())}")
        text = entry.value
        value = leaf.parse(text, entry.where) if isinstance(text, str) else leaf.check(text, entry.where)
        yield Setting(leaf, value, entry.where)
