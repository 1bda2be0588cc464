"""Tests of banyan.wire.audit. The hook cannot be taken back, so each test has an interpreter of its own."""

import subprocess
import sys

UNPICKLE = "import pickle; print(pickle.loads(pickle.dumps(print)))"


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_unpickling_is_refused_after_the_hook_is_installed() -> None:
    result = run(f"from banyan.wire.audit import install_audit_hook; install_audit_hook(); {UNPICKLE}")
    assert result.returncode == 1
    assert "UnpickleError: unpickling of builtins.print refused" in result.stderr


def test_without_the_hook_the_same_code_unpickles() -> None:
    assert run(UNPICKLE).returncode == 0


def test_encoding_decoding_and_imports_pass() -> None:
    result = run(
        "from banyan.wire.audit import install_audit_hook; install_audit_hook()\n"
        "import importlib, logging.config, banyan.wire.channel\n"
        "from banyan.wire.codec import Codec\n"
        "from banyan.wire.control import Failed, FromChild\n"
        "codec = Codec(FromChild)\n"
        "print(codec.decode(codec.encode(Failed(reason='fine'))))"
    )
    assert result.returncode == 0, result.stderr
    assert "fine" in result.stdout
