"""What a page may name: files, symbols, settings, flags and variables that exist."""

import ast
import importlib
import importlib.util
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from banyan.config.env import OWN_VARIABLES
from banyan.config.load import Names

_CODE = ("banyan", "benchmarks", "tests")
_FILE_ENDS = (".py", ".md")
_DATA_ENDS = (".json", ".toml", ".yaml", ".yml", ".txt", ".cfg", ".ini", ".jsonl")
_GENERATED = "benchmarks/results"
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_SYMBOL = re.compile(r"[A-Z][a-z0-9]+[A-Z]\w*|[a-z]\w*_\w+|_\w+")
_CALL = re.compile(r"([A-Za-z_][\w.]*)\(.*\)", re.S)
_IDENTIFIER = re.compile(r"[A-Za-z_][\w.]*")


class Known:
    """Everything that exists in the repository, as far as a page can name it."""

    def __init__(self, root: Path, settings: Names, flags: Iterable[str]) -> None:
        self._root = root
        self._flags = set(flags)
        self._settings = settings
        self._paths = {leaf.path for leaf in settings.leaves}
        self._variables = {leaf.variable for leaf in settings.leaves} | set(OWN_VARIABLES)
        self._names: set[str] = set()
        self._members: dict[str, set[str]] = {}
        for path in (path for folder in _CODE for path in (root / folder).rglob("*.py")):
            if root / "tests/docs" not in path.parents:  # what is planted there does not exist
                self._collect(ast.parse(path.read_text(encoding="utf-8")))

    def problem(self, span: str, page: Path) -> str:
        """Say what is wrong with a piece of code in the text of a page, or nothing."""
        if span.startswith(("--", "banyan ")):
            return self._flag_problem(span)
        if span.startswith("BANYAN_"):
            name = span.partition("=")[0]
            return "" if name in ("BANYAN_", "BANYAN_*") or name in self._variables else f"no variable {name}"
        if call := _CALL.fullmatch(span):
            span = call[1]
        if " " in span or "://" in span or span.startswith(("/", "~", "-")):
            return ""
        if span.endswith(_FILE_ENDS) or ("/" in span and self._is_ours(span)):
            return "" if self._file_exists(span, page) else f"no file {span}"
        if span.endswith(_DATA_ENDS):
            return ""
        if _DOTTED.fullmatch(span):
            return "" if self._dotted_exists(span) else f"no name {span}"
        if _SYMBOL.fullmatch(span) or call:
            return "" if span in self._names else f"no symbol {span}"
        return ""

    def _flag_problem(self, span: str) -> str:
        for word in span.split():
            flag = word.partition("=")[0].rstrip(".,;:)")
            if re.fullmatch(r"--[A-Za-z][\w.-]*", flag):
                known = flag in self._flags or self._settings.leaf(flag) or self._settings.switch(flag)
                if not known:
                    return f"no flag {flag}"
        return ""

    def _is_ours(self, span: str) -> bool:
        """Tell whether a path starts in a folder of the repository or of the package."""
        first = span.partition("/")[0]
        return (self._root / first).is_dir() or (self._root / "banyan" / first).is_dir()

    def _file_exists(self, span: str, page: Path) -> bool:
        if span.startswith(_GENERATED):
            return True
        bases = (self._root, self._root / "banyan", (self._root / page).parent)
        for name in _braces(span.rstrip("/")):
            found = any(next(base.glob(name), None) for base in bases)
            if not found and "/" not in name:
                found = any(next((self._root / top).rglob(name), None) for top in (*_CODE, "docs"))
            if not found:
                return False
        return True

    def _dotted_exists(self, name: str) -> bool:
        first, *rest = name.split(".")
        if name in self._paths or name in self._names:  # a setting, or a name that the code itself spells out
            return True
        if first in _CODE:
            return _importable(name)
        if first in self._members:
            return rest[0] in self._members[first]
        if _importable(f"banyan.{name}") or all(part in self._names for part in (first, *rest)):
            return True
        return _importable(name)

    def _collect(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            self._names.update(_names_of(node))
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("--"):
                self._flags.add(node.value)  # of a parser that is no part of the config
            if isinstance(node, ast.ClassDef):
                members = self._members.setdefault(node.name, set())
                for part in ast.walk(node):
                    members.update(_names_of(part))


def _names_of(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            yield name
        case ast.keyword(arg=str(name)) | ast.alias(name=name):
            yield name
        case ast.Constant(value=str(text)) if _IDENTIFIER.fullmatch(text):
            yield text
        case _:
            return


def _braces(name: str) -> list[str]:
    """Expand `a/{b,c}.py`."""
    match = re.search(r"\{([^{}]*)\}", name)
    if not match:
        return [name]
    return [
        path
        for part in match[1].split(",")
        for path in _braces(name[: match.start()] + part.strip() + name[match.end() :])
    ]


def _importable(name: str) -> bool:
    """Tell whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    found: object = None
    for count in range(1, len(parts) + 1):
        module = ".".join(parts[:count])
        if found is None or isinstance(found, ModuleType):
            try:
                found = importlib.import_module(module)
                continue
            except ImportError:
                if found is None:
                    return False
        if not hasattr(found, parts[count - 1]):
            fields = getattr(found, "__annotations__", {})
            return parts[count - 1] in fields and count == len(parts)
        found = getattr(found, parts[count - 1])
    return True
