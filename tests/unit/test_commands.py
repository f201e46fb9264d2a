"""What the commands say to somebody who tries them for the first time."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("package", ["harness", "evil_minions"])
def test_python_without_the_environment_is_told(root: Path, package: str) -> None:
    """A Python that lacks the packages gets one sentence with the way, no traceback."""
    # -S: without site-packages, as any other Python on the machine
    command = [sys.executable, "-S", "-m", package, "--help"]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert f"run `nox -s apply` first, then build/venv/bin/python -m {package}." in ended.stderr
