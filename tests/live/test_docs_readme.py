"""The README and the page of the installation, followed as they stand, on a machine without a master."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest

from harness.bed import Bed, BedSettings
from tests.live import salt_release
from tests.live.docs_machine import docs_machine
from tests.live.docs_page import blocks
from tests.live.docs_walk import follow

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.mark.needs_root
def test_first_minion(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Units, a master and a minion whose key is accepted."""
    with docs_machine(root, tmp_path_factory, begun=False) as machine:
        follow(
            root / "docs" / "install.md",
            machine,
            since="The patched Salt from nothing",
            until="Patches for an installed Salt",
        )


def test_installation(root: Path, tmp_path: Path) -> None:
    """They make a Salt of the tested versions that needs nothing of the checkout (tested: readme-install)."""
    (block,) = [
        block for block in blocks(root / "docs" / "install.md") if block.markers.get("tested") == "readme-install"
    ]
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


def test_one_feature_on_a_packaged_salt(root: Path, tmp_path: Path) -> None:
    """Three commands from nothing to the first query, on unpatched Salt 3007.17 (tested: readme-extension)."""
    (block,) = [block for block in blocks(root / "README.md") if block.markers.get("tested") == "readme-extension"]
    build, install, ask = [command.text for command in block.commands]
    # what the first one has besides is that of the two commands, which others run
    assert build.endswith(" && build/nox/bin/nox -s wheels")
    salt_release.wheels(root, tmp_path)
    made = salt_release.with_extensions(salt_release.release(root, "3007.17"), tmp_path / "salt", [])
    # Salt's own one refuses whatever is no package of its project
    (made / "bin" / "salt-pip").unlink()
    (made / "bin" / "salt-pip").symlink_to("pip")
    path = f"{made / 'bin'}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["bash", "-c", install], cwd=root, env={**os.environ, "PATH": path}, check=True)
    settings = BedSettings(tree=made, folder=tmp_path / "bed", minions=2, api=None, pillar="none", postgres="none")
    with Bed(settings) as bed:
        bed.start_fleet().wait_ready(120)
        command, *arguments = shlex.split(ask)
        found = bed.run(command, arguments)
    assert found.returncode == 0, found.stdout + found.stderr
    assert [line.split()[0] for line in found.stdout.splitlines()] == ["Node", *bed.settings.minion_ids()]
