"""The README, followed as it stands: features on a machine with the patched Salt, its start on one without a master."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.live.docs_machine import docs_machine
from tests.live.docs_page import blocks
from tests.live.docs_walk import follow

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(1200)]

INSTALL = "## Install the patched Salt\n"


def part(page: Path, folder: Path, *, install: bool) -> Path:
    """Return the chapter of the installation as a page of its own, or all the others."""
    before, title, rest = page.read_text(encoding="utf-8").partition(INSTALL)
    assert title
    chapter, following, after = re.split(r"^(## )", rest, maxsplit=1, flags=re.MULTILINE)
    found = folder / page.name
    found.write_text(title + chapter if install else before + following + after, encoding="utf-8")
    return found


@pytest.mark.needs_root
def test_features(root: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each example that needs no set-up of its own does what it says."""
    with docs_machine(root, tmp_path_factory) as machine:
        follow(part(root / "README.md", tmp_path, install=False), machine)


@pytest.mark.needs_root
def test_first_minion(root: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Units, a master and a minion whose key is accepted."""
    with docs_machine(root, tmp_path_factory, begun=False) as machine:
        follow(part(root / "README.md", tmp_path, install=True), machine)


def test_installation(root: Path, tmp_path: Path) -> None:
    """They make a Salt of the tested versions that needs nothing of the checkout (tested: readme-install)."""
    (block,) = [block for block in blocks(root / "README.md") if block.markers.get("tested") == "readme-install"]
    *_, make, install = [command.text.replace("/opt/salt", str(tmp_path)) for command in block.commands]
    for command in (make, install):
        subprocess.run(["bash", "-c", command], cwd=root, check=True)
    where = [str(tmp_path / "bin" / "python"), "-P", "-c", "import salt, psycopg2; print(salt.__file__)"]
    found = subprocess.run(where, cwd="/", capture_output=True, text=True, check=True).stdout
    assert found.startswith(str(tmp_path))
    versions = subprocess.run(
        [tmp_path / "bin" / "salt", "--versions-report"], capture_output=True, text=True, check=True
    )
    assert "Salt: 3008.5" in versions.stdout
