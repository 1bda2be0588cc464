"""The tools that take pages apart find what is planted in a page."""

from pathlib import Path

import pytest

from banyan.config.load import ENGINE_LEAVES, Names
from tests.docs.names import Known
from tests.docs.pages import Page, read_pages

TEXT = """# A page, with `code`

See [one](other.md#part-2), ![two](<a b.png>) and `[three](no.md)`.

```python
x = "`not a span`"
```

## Part 2 #

``two ` ticks`` and `wrapped
span` here.

```console
$ A=1 banyan config show --page-size 8 \\
    --seed 1 | head   # shown
make test && banyan version > out
```

[ref]: docs/x.md
"""

PAGE = Page(Path("docs/a.md"), TEXT)


def test_fenced_blocks_are_found_by_language_with_their_line() -> None:
    [block] = PAGE.fences("python")
    assert (block.line, block.text) == (6, 'x = "`not a span`"\n')
    assert PAGE.fences("rust") == []


def test_code_in_the_text_is_found_and_code_in_blocks_is_not() -> None:
    assert [(span.line, span.text) for span in PAGE.spans()] == [
        (1, "code"),
        (3, "[three](no.md)"),
        (11, "two ` ticks"),
        (11, "wrapped span"),
    ]


def test_links_are_found_and_those_inside_code_are_not() -> None:
    assert [(link.line, link.text) for link in PAGE.links()] == [(3, "other.md#part-2"), (3, "a"), (20, "docs/x.md")]


def test_headings_can_be_linked_to() -> None:
    assert PAGE.anchors() == {"a-page-with-code", "part-2"}
    assert Page(Path("b.md"), "# Same\n# Same\n").anchors() == {"same", "same-1"}


def test_shell_blocks_are_split_into_simple_commands() -> None:
    assert [tuple(command) for command in PAGE.commands()] == [
        (15, ("A=1",), ("banyan", "config", "show", "--page-size", "8", "--seed", "1")),
        (15, (), ("head",)),
        (17, (), ("make", "test")),
        (17, (), ("banyan", "version")),
        (17, (), ("out",)),
    ]


def test_pages_are_read_in_order_and_once(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "docs/b.md", "docs/a.md"):
        (tmp_path / name).write_text("# x\n")
    pages = read_pages(tmp_path, "README.md", "docs/*.md", "docs/a.md")
    assert [page.path.as_posix() for page in pages] == ["README.md", "docs/a.md", "docs/b.md"]


@pytest.fixture(scope="module")
def known() -> Known:
    return Known(Path(__file__).parents[2], Names(ENGINE_LEAVES), ["--help"])


@pytest.mark.parametrize(
    "span",
    [
        "banyan/config/spec.py",
        "banyan/config/",
        "banyan/config",
        "config/{spec,load}.py",
        "banyan/config/*.py",
        "spec.py",
        "tests/docs",
        "../README.md",
        "benchmarks/results/any.json",
        "tokenizer.json",
        "application/json",
        "/proc/meminfo",
        "https://example.org/a.py",
        "banyan.config.spec",
        "banyan.config.spec.EngineConfig",
        "banyan.config.spec.MemoryConfig.page_size",
        "config.resolve.resolve",
        "memory.page_size",
        "EngineConfig",
        "EngineConfig.memory",
        "resolve(config, host, card)",
        "page_size",
        "time.monotonic",
        "msgspec.Struct",
        "--page-size",
        "--page-size 16",
        "--memory.page-size=16",
        "--disable-radix-cache",
        "--fail-over",
        "--help",
        "banyan config show --seed 3",
        "BANYAN_MEMORY_PAGE_SIZE",
        "BANYAN_MEMORY_PAGE_SIZE=16",
        "BANYAN_CACHE_DIR",
        "BANYAN_*",
        "some words of text",
        "oracle",
        "auto",
        "16",
    ],
)
def test_what_exists_may_be_named(known: Known, span: str) -> None:
    assert known.problem(span, Path("docs/a.md")) == ""


@pytest.mark.parametrize(
    "span",
    [
        "banyan/config/nothing.py",
        "banyan/nothing",
        "config/{spec,nothing}.py",
        "banyan/config/*.toml",
        "nothing.py",
        "../NOTHING.md",
        "banyan.nothing",
        "banyan.config.spec.NoSuchConfig",
        "banyan.config.spec.MemoryConfig.no_such_field",
        "memory.no_such_field",
        "EngineConfig.no_such_field",
        "time.no_such_function",
        "NoSuchConfig",
        "no_such_function",
        "no_such_function(a, b)",
        "nosuch()",
        "--no-such-flag",
        "--no-such-flag 16",
        "banyan config show --no-such-flag",
        "BANYAN_NO_SUCH",
    ],
)
def test_what_does_not_exist_is_found(known: Known, span: str) -> None:
    assert known.problem(span, Path("docs/a.md")).startswith("no ")
