import io

from banyan.sources.progress import ProgressBar, silent


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_one_line_that_is_redrawn() -> None:
    out = Terminal()
    bar = ProgressBar(out)
    for done in (0, 1, 50_000_000, 100_000_000):
        bar("pulling x", done, 100_000_000)
    lines = out.getvalue().split("\r")[1:]
    assert len(lines) == 3  # one byte more is no change that can be seen
    assert "[###############               ]  50 %  50 / 100 MB" in lines[1]
    assert lines[2].endswith("\n") and not lines[1].endswith("\n")


def test_a_log_gets_few_lines() -> None:
    out = io.StringIO()
    bar = ProgressBar(out)
    for done in range(101):
        bar("pulling x", done * 1_000_000, 100_000_000)
    assert out.getvalue().splitlines() == [f"pulling x: {n} / 100 MB" for n in (0, 25, 50, 75, 100)]


def test_an_unknown_size_is_left_out() -> None:
    out = io.StringIO()
    ProgressBar(out)("pulling x", 3_000_000, 0)
    assert out.getvalue() == "pulling x: 3 MB\n"


def test_silence_is_silent() -> None:
    silent("pulling x", 1, 2)
