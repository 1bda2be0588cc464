"""Tests of benchmarks.result."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from benchmarks.result import Machine, Result, ResultError, commit, measured, read, stamp, write

ROW = {
    "model": "llama8b",
    "workload": "batch",
    "figure": "out_tok_s",
    "better": "higher",
    "runs": [10510.2, 10498.7],
    "value": 10504.45,
    "peer": 9493,
    "peer_name": "other",
    "peer_runs": [9493],
    "target": 10500,
    "limit": 13770,
    "repeated": 3,
}
EXAMPLE = {
    "name": "h200",
    "commit": "0" * 40,
    "date": "2026-11-20",
    "host": {"cpu": "some", "cores": 16, "gpu": "NVIDIA H200"},
    "versions": {"python": "3.12.3", "torch": "2.11.0"},
    "rows": [ROW],
}


def test_the_value_is_the_median_of_the_runs() -> None:
    assert measured("turn_1024_ms", "ms", "lower", [3.0, 1.0, 2.0]).value == 2.0
    assert measured("F1", "count", "lower", [1, 4]).value == 2.5


def test_a_file_in_the_documented_shape_is_read_and_written_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "given.json"
    path.write_text(json.dumps(EXAMPLE))
    result = read(path)
    assert result.rows[0].extra == {"repeated": 3}
    assert result.rows[0].key == ("llama8b", "batch", "out_tok_s")
    assert json.loads(write(result, tmp_path).read_text()) == EXAMPLE


def test_what_was_not_measured_is_absent(tmp_path: Path) -> None:
    row = measured("match_4096_us", "us", "lower", [100.0])
    path = write(
        Result(name="x", commit="c", date="d", host=Machine(cpu="c", cores=1), versions={}, rows=(row,)), tmp_path
    )
    written = json.loads(path.read_text())
    assert sorted(written["rows"][0]) == ["better", "figure", "model", "runs", "value", "workload"]
    assert written["host"] == {"cpu": "c", "cores": 1}
    assert path.name == "x.json"


def test_a_stamped_result_names_commit_machine_and_versions(tmp_path: Path) -> None:
    result = stamp("sched", [measured("turn_1024_ms", "ms", "lower", [1.0], extra={"rows": 1024})])
    assert re.fullmatch(r"([0-9a-f]{40}|unknown)(\+changes)?", result.commit)
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", result.date)
    assert result.host.cores >= 1
    assert {"python", "numpy", "msgspec"} <= set(result.versions)
    assert read(write(result, tmp_path / "new")) == result


def test_the_commit_is_marked_where_files_differ_from_it(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        options = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", "-C", tmp_path, *options, *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert commit(tmp_path) == "unknown"
    git("init", "-q")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-q", "-m", "one")
    head = git("rev-parse", "HEAD")
    assert commit(tmp_path) == head
    (tmp_path / "a").write_text("2")
    assert commit(tmp_path) == f"{head}+changes"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"rows": 5}',
        '{"rows": ["x"]}',
        json.dumps({**EXAMPLE, "rows": [{**ROW, "figure": "speed"}]}),
        json.dumps({**EXAMPLE, "rows": [{**ROW, "better": "more"}]}),
        json.dumps({**EXAMPLE, "rows": [{**ROW, "runs": []}]}),
    ],
)
def test_what_is_not_a_result_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.json"
    path.write_text(text)
    with pytest.raises(ResultError, match=r"odd\.json is not a result file"):
        read(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=r"cannot read .*none"):
        read(tmp_path / "none")
