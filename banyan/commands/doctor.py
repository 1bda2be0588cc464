"""banyan doctor: check this machine; exit status 1 if a server would not start."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.metadata import version

from banyan.commands import checks
from banyan.commands.arguments import parse
from banyan.commands.checks import Finding
from banyan.commands.layout import as_json, columns
from banyan.config.env import cache_dir, effective_variables, setting_variables
from banyan.config.host import probe


def help_text() -> str:
    """Say how `banyan doctor` is used."""
    return (
        "usage: banyan doctor [--json]\n\n"
        "Each line is ok, warn, or stop: then a server would not start, and the exit status is 1."
    )


def prepare(argv: Sequence[str]) -> Callable[[], int]:
    """Read the arguments of `banyan doctor`."""
    switches = parse("doctor", argv, switches=("--json",)).switches
    return functools.partial(_run, "--json" in switches)


def examine() -> list[Finding]:
    """Check everything."""
    host, cache = probe(), cache_dir()
    return [
        Finding("banyan", "ok", version("banyan-llm")),
        checks.check_python(),
        checks.check_platform(host),
        checks.check_cpu(host),
        checks.check_memory(host),
        checks.check_torch(),
        checks.check_temporary(),
        checks.check_cache(cache),
        *checks.check_models(cache),
        *checks.check_settings(setting_variables(), effective_variables(), host, cache),
    ]


def report(findings: Sequence[Finding]) -> str:
    """Write findings as lines, each with what to do."""
    rows = [
        (found.state, found.name, found.value + (f"; {found.advice}" if found.advice else "")) for found in findings
    ]
    return columns(rows)


def _run(is_json: bool) -> int:
    findings = examine()
    is_fit = all(found.state != "stop" for found in findings)
    if is_json:
        print(as_json({"ok": is_fit, "findings": [asdict(found) for found in findings]}))
    else:
        print(report(findings))
    return 0 if is_fit else 1
