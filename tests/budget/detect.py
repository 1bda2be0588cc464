"""What the code base must not have, as functions from one source file to findings in words."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60

_TYPE_IGNORE = re.compile(r"#\s*type:\s*ignore")


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file; its path is relative to the root of the repository."""

    path: Path
    text: str

    @property
    def tree(self) -> ast.Module:
        """The parsed file."""
        return ast.parse(self.text)

    def at(self, line: int, what: str) -> str:
        """Say where something was found."""
        return f"{self.path}:{line}: {what}"


def sources(root: Path, *folders: str) -> list[Source]:
    """Read every Python file under these folders."""
    paths = sorted(path for folder in folders for path in (root / folder).rglob("*.py"))
    return [Source(path.relative_to(root), path.read_text(encoding="utf-8")) for path in paths]


def long_file(source: Source) -> Iterator[str]:
    """Find a file that does more than one job."""
    lines = len(source.text.splitlines())
    if lines > MAX_FILE_LINES:
        yield source.at(lines, f"{lines} lines, {MAX_FILE_LINES} are allowed")


def long_functions(source: Source) -> Iterator[str]:
    """Find functions that cannot be seen at once."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield source.at(node.lineno, f"{node.name} has {lines} lines, {MAX_FUNCTION_LINES} are allowed")


def type_ignores(source: Source) -> Iterator[str]:
    """Find comments that silence the type checker; the words in a string are no comment."""
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT and _TYPE_IGNORE.search(token.string):
            yield source.at(token.start[0], "silences the type checker")


def global_statements(source: Source) -> Iterator[str]:
    """Find functions that write module state."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Global):
            yield source.at(node.lineno, f"global {', '.join(node.names)}")


def prints(source: Source) -> Iterator[str]:
    """Find calls of print."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield source.at(node.lineno, "prints")


def missing_docstring(source: Source) -> Iterator[str]:
    """Find a module that does not say what it is for."""
    if not (ast.get_docstring(source.tree) or "").strip():
        yield source.at(1, "no module docstring")


def code_in_init(source: Source) -> Iterator[str]:
    """Find anything but a docstring in the `__init__` of a package."""
    if source.path.name == "__init__.py":
        for node in source.tree.body[1:]:
            yield source.at(node.lineno, "code in __init__")


def environment_reads(source: Source) -> Iterator[str]:
    """Find uses of the environment; the linter only sees some of their spellings."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute | ast.Name | ast.alias):
            name = (
                node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else node.name
            )
            if name in ("environ", "environb", "getenv", "putenv"):
                yield source.at(node.lineno, "uses the environment")


def attributes(source: Source, name: str) -> set[str]:
    """Collect the attributes of the instances of a class: declared in its body or assigned to self."""
    found: set[str] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            for statement in node.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    found.add(statement.target.id)
            found |= {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute) and _is_assigned(part)}
    return found


def without_mirror(root: Path, package: str, tests: str) -> list[str]:
    """List the modules of a package that have no test file in the same place under `tests`."""
    modules = [path.relative_to(root / package) for path in sorted((root / package).rglob("*.py"))]
    return [
        f"{package}/{module.as_posix()}"
        for module in modules
        if not module.name.startswith("__") and not (root / tests / module.with_name(f"test_{module.name}")).is_file()
    ]


def module_names(root: Path, package: str) -> list[str]:
    """Name every module of a package, as it is imported."""
    paths = (path.relative_to(root).with_suffix("") for path in sorted((root / package).rglob("*.py")))
    return [".".join(path.parts).removesuffix(".__init__") for path in paths]


def _is_assigned(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self"
