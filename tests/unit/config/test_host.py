"""Tests of banyan.config.host."""

import os
from pathlib import Path

import pytest

from banyan.config.host import probe

KB = 1024


def machine(root: Path, files: dict[str, str]) -> Path:
    """A root folder with these files, on a machine with 8000 kB of which 6000 are available."""
    files = {"proc/meminfo": "MemTotal: 8000 kB\nMemFree: 1 kB\nMemAvailable: 6000 kB\n", **files}
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_this_machine_has_cores_and_memory() -> None:
    host = probe()
    assert host.num_cores >= 1
    assert 0 < host.available_bytes <= host.total_bytes
    assert host.platform.startswith(os.uname().sysname.lower())
    assert host.cpu


def test_memory_and_processor_come_from_proc(tmp_path: Path) -> None:
    host = probe(machine(tmp_path, {"proc/cpuinfo": "processor : 0\nmodel name\t: Abacus 9\nmodel name\t: Abacus 9\n"}))
    assert (host.total_bytes, host.available_bytes) == (8000 * KB, 6000 * KB)
    assert host.cpu == "Abacus 9"


def test_without_proc_the_total_counts_as_available(tmp_path: Path) -> None:
    host = probe(tmp_path)
    assert host.total_bytes == host.available_bytes > 0
    assert host.cpu


def test_a_container_of_version_2_limits_memory(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        {
            "proc/self/cgroup": "0::/pod/box\n",
            "sys/fs/cgroup/pod/box/memory.max": "max\n",
            "sys/fs/cgroup/pod/memory.max": f"{4000 * KB}\n",
            "sys/fs/cgroup/pod/memory.current": f"{3000 * KB}\n",
            "sys/fs/cgroup/pod/memory.stat": f"anon 5\ninactive_file {1000 * KB}\n",
        },
    )
    host = probe(root)
    assert host.total_bytes == 4000 * KB
    assert host.available_bytes == 2000 * KB


def test_a_container_of_version_1_limits_memory(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        {
            "proc/self/cgroup": "3:memory,hugetlb:/box\n1:cpu:/\n",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": f"{5000 * KB}\n",
            "sys/fs/cgroup/memory/box/memory.usage_in_bytes": f"{5500 * KB}\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    host = probe(root)
    assert host.total_bytes == 5000 * KB
    assert host.available_bytes == 0


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "250000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, 16),
        (
            {
                "proc/self/cgroup": "1:cpuacct,cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            3,
        ),
        ({"proc/self/cgroup": "1:cpu:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n"}, 16),
        ({}, 16),
    ],
)
def test_a_quota_of_processor_time_limits_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], expected: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    assert probe(machine(tmp_path, files)).num_cores == expected
