"""The pages are true: what they name exists, what they show runs, what they generate is up to date."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from banyan import cli
from banyan.commands.generate import SAMPLING_LEAVES
from banyan.config.errors import UserError
from banyan.config.load import ENGINE_LEAVES, FILE_LEAVES, Names, load
from tests.docs.names import Known
from tests.docs.pages import Command, Page, Piece, read_pages

ROOT = Path(__file__).parents[2]
PAGES = read_pages(ROOT, "README.md", "docs/*.md")
# Decisions are history: they may name what is gone, but their links must lead somewhere.
ALL_PAGES = read_pages(ROOT, "*.md", "docs/**/*.md")

TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.M))
EXAMPLES = [(page, block) for page in PAGES for block in page.fences("python", "py")]


@pytest.fixture(scope="module")
def known() -> Known:
    return Known(ROOT, Names((*ENGINE_LEAVES, *FILE_LEAVES, *SAMPLING_LEAVES)), ["--help", "--version"])


def by_path(pages: list[Page]) -> list[str]:
    return [page.path.as_posix() for page in pages]


@pytest.mark.parametrize("page", PAGES, ids=by_path(PAGES))
def test_everything_that_is_named_exists(page: Page, known: Known) -> None:
    problems = [(span.line, known.problem(span.text, page.path)) for span in page.spans()]
    assert [page.at(line, problem) for line, problem in problems if problem] == []


@pytest.mark.parametrize("page", ALL_PAGES, ids=by_path(ALL_PAGES))
def test_links_lead_somewhere(page: Page) -> None:
    assert [page.at(link.line, f"dead link {link.text}") for link in page.links() if not leads(page, link.text)] == []


def leads(page: Page, link: str) -> bool:
    if re.match(r"[a-z]+:", link):
        return True
    name, _, anchor = link.partition("#")
    target = ROOT / page.path.parent / name if name else ROOT / page.path
    if not target.exists():
        return False
    return not anchor or (target.suffix == ".md" and anchor in Page(page.path, target.read_text()).anchors())


@pytest.mark.parametrize(
    ("page", "block"),
    [
        pytest.param(page, block, id=f"{page.path}:{block.line}", marks=[pytest.mark.slow] * ("Engine" in block.text))
        for page, block in EXAMPLES
    ],
)
def test_examples_run(page: Page, block: Piece, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text("\n" * (block.line - 1) + block.text)
    done = subprocess.run(
        [sys.executable, "-W", "error", script], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, f"{page.path}: {done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=by_path(PAGES))
def test_commands_are_understood(page: Page, tmp_path: Path) -> None:
    problems = [(command.line, command_problem(command, tmp_path)) for command in page.commands()]
    assert [page.at(line, problem) for line, problem in problems if problem] == []


def command_problem(command: Command, folder: Path) -> str:
    """Say what is wrong with a command of ours, or nothing; other programs are not our business."""
    variables = dict(variable.split("=", 1) for variable in command.variables)
    program, *arguments = command.words or ("",)
    if program.startswith("python") and arguments[:1] == ["-m"]:
        module, *arguments = arguments[1:]
        if module != "banyan":
            return "" if importlib.util.find_spec(module) else f"no module {module}"
        program = module
    if program == "make":
        unknown = [word for word in arguments if "=" not in word and word not in TARGETS]
        return f"no target {unknown[0]}" if unknown else ""
    if Path(program).name != "banyan":
        return ""
    try:
        load([], {name: value for name, value in variables.items() if name.startswith("BANYAN_")})
        cli.prepare(with_empty_file(arguments, folder))
    except UserError as error:
        return str(error)
    return ""


def with_empty_file(arguments: list[str], folder: Path) -> list[str]:
    """Let every config file that is named exist."""
    file = folder / "engine.yaml"
    file.touch()
    return [
        str(file) if before == "--config" else word for before, word in zip(["", *arguments], arguments, strict=False)
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("banyan config show --page-size 16", ""),
        ("banyan config show --config any.yaml", ""),
        ("BANYAN_MEMORY_PAGE_SIZE=8 .venv/bin/banyan version", ""),
        ("python -m banyan version && make test && ls nothing", ""),
        ("python3 -m benchmarks.compare a.json b.json", ""),
        ("banyan config show --pagesize 16", "unknown flag --pagesize"),
        ("banyan shew", "unknown verb"),
        ("BANYAN_PAGES=8 banyan version", "unknown variable BANYAN_PAGES"),
        ("python -m banyan nothing", "unknown verb"),
        ("python -m benchmarks.nothing", "no module benchmarks.nothing"),
        ("make nothing", "no target nothing"),
    ],
)
def test_planted_commands_are_judged(text: str, problem: str, tmp_path: Path) -> None:
    page = Page(Path("a.md"), f"```sh\n{text}\n```\n")
    found = [found for command in page.commands() if (found := command_problem(command, tmp_path))]
    assert len(found) == bool(problem)
    assert all(problem in each for each in found)


@pytest.mark.parametrize(
    ("link", "answer"),
    [
        ("https://example.org/nothing", True),
        ("configuration.md", True),
        ("../README.md", True),
        ("configuration.md#memory", True),
        ("#memory", True),
        ("nothing.md", False),
        ("configuration.md#nothing", False),
        ("#nothing", False),
        ("../Makefile#nothing", False),
    ],
)
def test_planted_links_are_judged(link: str, answer: bool) -> None:
    assert leads(Page(Path("docs/configuration.md"), ""), link) is answer


def test_files_shown_on_the_page_of_settings_can_be_loaded(tmp_path: Path) -> None:
    [page] = [page for page in PAGES if page.path.name == "configuration.md"]
    blocks = page.fences("yaml")
    assert blocks
    for block in blocks:
        file = tmp_path / "engine.yaml"
        file.write_text(block.text)
        load(["--config", str(file)])
