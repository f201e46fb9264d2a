"""The check for what the oldest Python of all lacks although its minor release has it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

LATE = [
    'import tarfile\nwith tarfile.open("x") as members:\n    members.extractall("y", filter="data")\n',
    "import tarfile\nchosen = tarfile.data_filter\n",
    "from tarfile import FilterError as Wrong\n",
    'import shutil\nshutil.unpack_archive("x", filter="data")\n',
    'from email.utils import parseaddr\nparseaddr("x", strict=True)\n',
]
FINE = [
    'import tarfile\nchosen = getattr(tarfile, "data_filter", None)\n',
    'import tarfile\nwith tarfile.open("x") as a:\n    a.extraction_filter = None\n    a.extractall("y")\n',
    'print(list(filter(None, [1])))\nopen("x").filter(filter=3)\n',
]


def check(root: Path, path: Path) -> subprocess.CompletedProcess[str]:
    """Run the check."""
    command = [sys.executable, str(root / "tests" / "backports.py"), str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("text", LATE)
def test_what_the_oldest_python_lacks_is_found(root: Path, tmp_path: Path, text: str) -> None:
    """A name or parameter that came later is named with its line and its release."""
    (tmp_path / "module.py").write_text(text)
    ended = check(root, tmp_path)
    assert ended.returncode == 1
    assert ended.stdout.startswith(f"{tmp_path}/module.py:")
    assert "came with Python 3.11." in ended.stdout


@pytest.mark.parametrize("text", FINE)
def test_what_the_oldest_python_has_is_not(root: Path, tmp_path: Path, text: str) -> None:
    """What asks first, and other functions with such a parameter, are fine."""
    (tmp_path / "module.py").write_text(text)
    ended = check(root, tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "")
