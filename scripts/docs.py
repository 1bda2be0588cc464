"""Write the generated parts of the docs, or check them: the layout, and the table of settings."""

import argparse
import ast
import sys
from collections.abc import Callable
from pathlib import Path

from banyan.config.describe import table

ROOT = Path(__file__).resolve().parent.parent


def summary(path: Path) -> str:
    """Return the first line of a module's docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]


def layout() -> str:
    """List every module of the package, folder by folder, with what it is for."""
    package = ROOT / "banyan"
    lines = []
    for folder in [package, *sorted(p for p in package.rglob("*") if (p / "__init__.py").exists())]:
        depth = len(folder.relative_to(package.parent).parts) - 1
        lines.append(f"{'  ' * depth}{folder.name}/  -- {summary(folder / '__init__.py')}")
        modules = sorted(p for p in folder.glob("*.py") if p.name != "__init__.py")
        lines += [f"{'  ' * (depth + 1)}{path.name:<18} {summary(path)}" for path in modules]
    return "```text\n" + "\n".join(lines) + "\n```"


def settings() -> str:
    """Return the table of all settings."""
    return table().strip()


PARTS: dict[str, tuple[Path, Callable[[], str]]] = {
    "layout": (ROOT / "docs" / "architecture.md", layout),
    "settings": (ROOT / "docs" / "configuration.md", settings),
}


def render(page: str, name: str, content: str) -> str:
    """Put content between the marks of a part."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    head, _, rest = page.partition(begin)
    return f"{head}{begin}\n{content}\n{end}{rest.partition(end)[2]}"


def main() -> int:
    """Write the pages, or tell whether they are up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the pages instead of checking them")
    write = parser.parse_args().write
    stale = []
    for name, (path, make) in PARTS.items():
        page = path.read_text(encoding="utf-8")
        wanted = render(page, name, make())
        if wanted != page:
            stale.append(path.name)
            if write:
                path.write_text(wanted, encoding="utf-8")
    if stale and not write:
        sys.stderr.write(f"behind the code: {', '.join(stale)}; run `make docs`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
