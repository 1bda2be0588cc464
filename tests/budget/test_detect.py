"""Each detector finds a planted sample, and leaves alone what is like it but allowed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.budget import detect
from tests.budget.detect import Source

Detector = Callable[[Source], Iterator[str]]

LONG_BODY = "    pass\n" * detect.MAX_FUNCTION_LINES
FULL_BODY = "    pass\n" * (detect.MAX_FUNCTION_LINES - 1)


def found(detector: Detector, text: str, path: str = "banyan/a.py") -> list[str]:
    return list(detector(Source(Path(path), text)))


@pytest.mark.parametrize(
    ("detector", "text", "line"),
    [
        (detect.long_file, "\n" * (detect.MAX_FILE_LINES + 1), detect.MAX_FILE_LINES + 1),
        (detect.long_functions, f"\ndef f():\n{LONG_BODY}", 2),
        (detect.long_functions, f"async def f():\n{LONG_BODY}", 1),
        (detect.long_functions, f"class A:\n  def f(self):\n{LONG_BODY}", 2),
        (detect.type_ignores, "x = 1  # type: ignore\n", 1),
        (detect.type_ignores, "\nx = 1  #type:ignore[arg-type]\n", 2),
        (detect.global_statements, "def f():\n    global x\n", 2),
        (detect.prints, "def f():\n    print(1)\n", 2),
        (detect.missing_docstring, "x = 1\n", 1),
        (detect.missing_docstring, '""" """\n', 1),
        (detect.environment_reads, "import os\nos.environ['A']\n", 2),
        (detect.environment_reads, "from os import getenv\n", 1),
        (detect.environment_reads, "import os as o\no.getenv('A')\n", 2),
    ],
)
def test_a_planted_sample_is_found_with_its_line(detector: Detector, text: str, line: int) -> None:
    [finding] = found(detector, text)
    assert finding.startswith(f"banyan/a.py:{line}: ")


@pytest.mark.parametrize(
    ("detector", "text"),
    [
        (detect.long_file, "\n" * detect.MAX_FILE_LINES),
        (detect.long_functions, f"def f():\n{FULL_BODY}"),
        (detect.type_ignores, "x = '# type: ignore'\n"),
        (detect.global_statements, "def f():\n    x = globals\n"),
        (detect.prints, "x.print(1)\npprint(2)\n"),
        (detect.missing_docstring, '"""What it is for."""\n'),
        (detect.environment_reads, "environment = 1\n"),
    ],
)
def test_what_is_allowed_is_left_alone(detector: Detector, text: str) -> None:
    assert found(detector, text) == []


def test_code_in_init_is_found_only_there() -> None:
    text = '"""A package."""\n\nfrom a import b\n'
    assert found(detect.code_in_init, text, "banyan/a/__init__.py") == ["banyan/a/__init__.py:3: code in __init__"]
    assert found(detect.code_in_init, text, "banyan/a/b.py") == []
    assert found(detect.code_in_init, '"""A package."""\n', "banyan/a/__init__.py") == []


def test_attributes_are_collected_from_the_body_and_from_self() -> None:
    text = (
        "class Req:\n    a: int\n    b: int = 1\n"
        "    def __init__(self):\n        self.c = self.d = 1\n        self.e: int = 2\n"
        "        self.f.g = other.h = 3\n"
        "class Other:\n    z: int\n"
    )
    assert detect.attributes(Source(Path("a.py"), text), "Req") == {"a", "b", "c", "d", "e"}


def test_a_module_without_a_test_file_is_found(tmp_path: Path) -> None:
    for name in ("p/__init__.py", "p/one.py", "p/sub/two.py", "p/sub/three.py", "tests/test_one.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "tests/sub").mkdir()
    (tmp_path / "tests/sub/test_three.py").write_text("")
    assert detect.without_mirror(tmp_path, "p", "tests") == ["p/sub/two.py"]


def test_sources_and_modules_are_listed_by_their_path(tmp_path: Path) -> None:
    for name in ("p/__init__.py", "p/sub/two.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    assert [source.path.as_posix() for source in detect.sources(tmp_path, "p")] == ["p/__init__.py", "p/sub/two.py"]
    assert detect.module_names(tmp_path, "p") == ["p", "p.sub.two"]
