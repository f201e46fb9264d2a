"""What the commands say to somebody who tries them for the first time."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from evil_minions import pipe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("package", ["harness", "evil_minions"])
def test_python_without_the_environment_is_told(root: Path, package: str) -> None:
    """A Python that lacks the packages gets one sentence with the way, no traceback."""
    # -S: without site-packages, as any other Python on the machine
    command = [sys.executable, "-S", "-m", package, "--help"]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert f"run `nox -s apply` first, then build/venv/bin/python -m {package}." in ended.stderr


@pytest.fixture
def unread() -> Iterator[int]:
    """Yield a pipe without a reader, as `head` leaves it when it has enough."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.parametrize(
    "words",
    [
        ("evil_minions", "behaviours"),
        ("harness", "scenarios"),
        ("patches", "status"),
        ("benchmarks",),
    ],
)
def test_output_that_nobody_reads(root: Path, unread: int, words: tuple[str, ...]) -> None:
    """A command whose output goes to `head` ends as if SIGPIPE had ended it, and says nothing."""
    ended = subprocess.run(
        [sys.executable, "-m", *words], cwd=root, stdout=unread, stderr=subprocess.PIPE, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (141, "")


def test_progress_that_nobody_reads(root: Path, unread: int) -> None:
    """Errors and progress may go to `head` as well."""
    command = [sys.executable, "-m", "harness", "scenarios", "there-is-none"]
    ended = subprocess.run(command, cwd=root, stderr=unread, stdout=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stdout) == (141, b"")


def test_other_pipes_may_break() -> None:
    """A pipe to somebody else that breaks is an error like any other."""

    def command() -> int:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        pipe.run(command)
