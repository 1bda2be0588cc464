"""Tests of banyan.commands.checks."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from banyan.commands import checks
from banyan.config.host import Host
from tests.unit.commands.models import put_model

HOST = Host(platform="linux-x86_64", cpu="a chip", num_cores=2, total_bytes=8 << 30, available_bytes=4 << 30)


def test_a_good_machine_is_ok() -> None:
    found = [checks.check_python(), checks.check_platform(HOST), checks.check_cpu(HOST), checks.check_memory(HOST)]
    assert {finding.state for finding in found} == {"ok"}
    assert "a chip, 2 cores" in found[2].value


def test_a_system_without_what_processes_need_stops_the_server() -> None:
    found = checks.check_platform(replace(HOST, platform="windows-amd64"))
    assert found.state == "stop"
    assert "WSL" in found.advice


def test_little_memory_is_a_warning() -> None:
    found = checks.check_memory(replace(HOST, available_bytes=100_000_000))
    assert (found.state, found.value) == ("warn", "100 MB free of 8.6 GB")
    assert "--max-total-tokens" in found.advice


def test_a_library_that_is_missing_stops_the_server() -> None:
    found = checks.check_torch("no_such_library")
    assert found.state == "stop"
    assert "pip install torch" in found.advice
    assert checks.check_torch("pytest").state == "ok"
    assert checks.check_torch("json").state == "warn"  # there, but not as a package


def test_the_cache_is_measured_though_it_need_not_exist(tmp_path: Path) -> None:
    found = checks.check_cache(tmp_path / "not" / "there")
    assert (found.state, ", 0 MB, " in found.value) == ("ok", True)
    (tmp_path / "data").write_bytes(bytes(2_000_000))
    assert ", 2 MB, " in checks.check_cache(tmp_path).value


def test_a_cache_that_is_no_folder_is_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    found = checks.check_cache(file)
    assert found.state == "warn"
    assert "BANYAN_CACHE_DIR" in found.advice


def test_models_are_looked_at_one_by_one(tmp_path: Path) -> None:
    (none,) = checks.check_models(tmp_path)
    assert "banyan pull" in none.advice
    put_model(tmp_path, "pypi:good")
    put_model(tmp_path, "pypi:bad").write_bytes(b"changed")
    bad, good = checks.check_models(tmp_path)
    assert (good.state, bad.state) == ("ok", "warn")
    assert "banyan rm pypi:bad" in bad.advice


def test_settings_are_shown_and_settled(tmp_path: Path) -> None:
    variable, settings = checks.check_settings({"BANYAN_MEMORY_PAGE_SIZE": "8"}, {"HF_TOKEN": "***"}, HOST, tmp_path)
    assert variable.value == "HF_TOKEN=***"
    assert (settings.state, "model oracle" in settings.value) == ("ok", True)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("BANYAN_MEMORY_PAGE_SIZ", "8", "did you mean BANYAN_MEMORY_PAGE_SIZE"),
        ("BANYAN_MEMORY_PAGE_SIZE", "x", "'x' is not allowed"),
        ("BANYAN_MODEL_PATH", "smollm2", "banyan pull smollm2:135m"),
    ],
)
def test_a_setting_that_cannot_be_had_stops_the_server(tmp_path: Path, name: str, value: str, said: str) -> None:
    (found,) = checks.check_settings({name: value}, {}, HOST, tmp_path)
    assert found.state == "stop"
    assert said in found.advice


def test_sockets_need_a_folder_that_can_be_written_to(tmp_path: Path) -> None:
    assert checks.check_temporary().state == "ok"
    found = checks.check_temporary(lambda: tmp_path / "missing")
    assert found.state == "stop"
    assert "TMPDIR" in found.advice
    other = checks.check_temporary(lambda: tmp_path)
    assert other.state == "ok"
    assert f"{tmp_path} is used for sockets" in other.advice
