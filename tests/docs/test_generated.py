"""The generated parts of the docs are what the code says now."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_generated_parts_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/docs.py"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
