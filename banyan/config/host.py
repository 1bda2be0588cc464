"""Host: cores and memory that this process may use. The only probe of the hardware."""

import os
import platform
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import msgspec


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """What the machine offers, after the limits of a container."""

    platform: str  # e.g. linux-x86_64
    cpu: str
    num_cores: int
    total_bytes: int
    available_bytes: int


def probe(root: Path = Path("/")) -> Host:
    """Look at this machine; `root` is where its /proc and /sys are."""
    total, available = _memory(root)
    for cgroup in _cgroups(root, "memory"):
        limit = _number(cgroup / "memory.max") or _number(cgroup / "memory.limit_in_bytes")
        if limit is not None:
            total = min(total, limit)
            available = min(available, max(0, limit - _used(cgroup)))
    return Host(
        platform=f"{platform.system()}-{platform.machine()}".lower(),
        cpu=_cpu_name(root),
        num_cores=_cores(root),
        total_bytes=total,
        available_bytes=available,
    )


def _memory(root: Path) -> tuple[int, int]:
    """Total and available bytes of the whole machine."""
    found = {line.partition(":")[0]: line.split()[1] for line in _lines(root / "proc/meminfo") if len(line.split()) > 1}
    if "MemTotal" in found:
        total = int(found["MemTotal"]) * 1024
        return total, int(found.get("MemAvailable", found["MemTotal"])) * 1024
    # Without /proc (macOS) only the total is known.
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return total, total


def _cores(root: Path) -> int:
    """Cores this process may run on, or a container's quota of them where that is less."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for cgroup in _cgroups(root, "cpu"):
        quota_us, period_us = _quota(cgroup)
        if quota_us is not None:
            cores = min(cores, max(1, quota_us // period_us))
    return cores


def _quota(cgroup: Path) -> tuple[int | None, int]:
    """Microseconds of processor time per period that a group may use; None is no limit."""
    quota, _, period = "".join(_lines(cgroup / "cpu.max")).partition(" ")
    if quota:
        return int(quota) if quota.isdecimal() else None, int(period)
    return _number(cgroup / "cpu.cfs_quota_us"), _number(cgroup / "cpu.cfs_period_us") or 100_000


def _cgroups(root: Path, controller: str) -> Iterator[Path]:
    """The folders that limit this process, from its own group up: version 2's tree, or version 1's for a controller."""
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top = root / "sys/fs/cgroup"
        elif controller in controllers.split(","):
            top = root / "sys/fs/cgroup" / controller
        else:
            continue
        group = PurePosixPath(path.lstrip("/"))
        yield from (top / place for place in (group, *group.parents))


def _used(cgroup: Path) -> int:
    """Bytes that a group holds and cannot give back: the kernel's cache of files does not count."""
    used = _number(cgroup / "memory.current") or _number(cgroup / "memory.usage_in_bytes") or 0
    cache = [line.split()[1] for line in _lines(cgroup / "memory.stat") if line.startswith("inactive_file ")]
    return max(0, used - int(cache[0] if cache else 0))


def _cpu_name(root: Path) -> str:
    names = (line.partition(":")[2].strip() for line in _lines(root / "proc/cpuinfo") if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _number(path: Path) -> int | None:
    """The number in a file; None where there is no such file or it says `max` or -1."""
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdecimal() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
