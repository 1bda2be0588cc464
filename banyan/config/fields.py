"""Leaf: one setting with its names, its values and its default, all read off the types of the spec."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from banyan.config.env import PREFIX
from banyan.config.errors import ConfigError

Value = bool | int | float | str
Root = TypeVar("Root", bound=msgspec.Struct)

_READABLE = inspect.BoolType | inspect.IntType | inspect.FloatType | inspect.StrType | inspect.LiteralType
_BOOLS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Leaf:
    """One setting of one group."""

    group: str
    name: str
    kinds: tuple[inspect.Type, ...]  # the members of its type: how it is read from text and told to people
    hint: Any  # the annotation itself: what msgspec checks a value against
    default: Value
    text: str
    flags: tuple[str, ...]  # without the path flag; the first is canonical
    switches: Mapping[str, Value]

    @property
    def path(self) -> str:
        """The setting's one true name."""
        return f"{self.group}.{self.name}"

    @property
    def path_flag(self) -> str:
        """The flag that every setting has."""
        return f"--{self.path.replace('_', '-')}"

    @property
    def main_flag(self) -> str:
        """The flag to name in a message."""
        return self.flags[0] if self.flags else self.path_flag

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"{PREFIX}{self.group}_{self.name}".upper()

    @property
    def is_bool(self) -> bool:
        """Tell whether the flag alone means yes."""
        return any(isinstance(kind, inspect.BoolType) for kind in self.kinds)

    @property
    def allowed(self) -> str:
        """What the setting may be, in words."""
        return " or ".join(_describe(kind) for kind in self.kinds)

    def parse(self, text: str, where: str) -> Value:
        """Read a value from text; `where` names who gave it."""
        value = self._read(text)
        if value is None:
            raise self._refused(text, where)
        return self.check(value, where)

    def check(self, value: object, where: str) -> Value:
        """Return the value if the setting may hold it."""
        try:
            checked: Value = msgspec.convert(value, self.hint)
        except msgspec.ValidationError:
            raise self._refused(value, where) from None
        # Infinity passes every lower bound, and NaN every comparison that is written the wrong way round.
        if isinstance(checked, float) and not math.isfinite(checked):
            raise self._refused(value, where)
        return checked

    def _read(self, text: str) -> Value | None:
        """Read text as one of the kinds: names before numbers before free text. None if it is none of them."""
        if any(isinstance(kind, inspect.LiteralType) and text in kind.values for kind in self.kinds):
            return text
        if self.is_bool and text in _BOOLS:
            return _BOOLS[text]
        for kind in self.kinds:
            try:
                if isinstance(kind, inspect.IntType):
                    return int(text)
                if isinstance(kind, inspect.FloatType):
                    return float(text)
            except ValueError:
                continue
        return text if any(isinstance(kind, inspect.StrType) for kind in self.kinds) else None

    def _refused(self, value: object, where: str) -> ConfigError:
        return ConfigError(f"{where}: {value!r} is not allowed for {self.path}; it must be {self.allowed}")


def group_leaves(group: str, struct: type[msgspec.Struct]) -> tuple[Leaf, ...]:
    """List the settings of one group, in the order in which they are declared."""
    return tuple(_leaf(group, field) for field in msgspec.structs.fields(struct))


def all_leaves(root: type[msgspec.Struct]) -> tuple[Leaf, ...]:
    """List every setting of a struct of groups."""
    groups = msgspec.structs.fields(root)
    return tuple(leaf for group in groups for leaf in group_leaves(group.name, group.type))


def changed(root: Root, values: Mapping[str, Value]) -> Root:
    """Return the struct of groups in which the settings at these paths have these values."""
    groups = msgspec.to_builtins(root)
    for path, value in values.items():
        group, name = path.split(".")
        groups[group][name] = value
    return msgspec.convert(groups, type(root))


def value_at(root: msgspec.Struct, leaf: Leaf) -> Value:
    """Read one setting out of a struct of groups."""
    value: Value = getattr(getattr(root, leaf.group), leaf.name)
    return value


def as_text(value: Value) -> str:
    """Write a value as it is read."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _leaf(group: str, field: msgspec.structs.FieldInfo) -> Leaf:
    kind = inspect.type_info(field.type)
    schema: Mapping[str, Any] = {}
    if isinstance(kind, inspect.Metadata):
        schema, kind = kind.extra_json_schema or {}, kind.type
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    if not all(isinstance(member, _READABLE) for member in kinds):
        raise TypeError(f"{group}.{field.name}: a setting must be readable from one word")
    names = schema.get("banyan", {})
    return Leaf(
        group=group,
        name=field.name,
        kinds=tuple(kinds),
        hint=field.type,
        default=field.default,
        text=schema.get("description", ""),
        flags=tuple(names.get("flags", ())),
        switches=dict(names.get("switches", {})),
    )


def _describe(kind: inspect.Type) -> str:
    match kind:
        case inspect.LiteralType(values=(only,)):
            return f"`{only}`"
        case inspect.LiteralType(values=values):
            return f"one of {', '.join(f'`{value}`' for value in values)}"
        case inspect.BoolType():
            return " or ".join(f"`{word}`" for word in _BOOLS)
        case inspect.IntType():
            return f"an integer{_bounds(kind)}"
        case inspect.FloatType():
            return f"a number{_bounds(kind)}"
        case _:
            return "text"


def _bounds(kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.ge is not None and kind.le is not None:
        return f" from {kind.ge} to {kind.le}"
    parts = {"at least": kind.ge, "above": kind.gt, "at most": kind.le, "below": kind.lt}
    told = " and ".join(f"{word} {bound}" for word, bound in parts.items() if bound is not None)
    return f" {told}" if told else ""
