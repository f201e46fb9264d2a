"""The README and the page of the installation, followed as they stand, on a machine without a master."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from harness.bed import Bed, BedSettings
from tests.live.helpers import salt_release
from tests.live.helpers.docs_machine import docs_machine
from tests.live.helpers.docs_page import blocks
from tests.live.helpers.docs_walk import follow
from tests.live.helpers.salt_release import RELEASES

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


class Copy:
    """A copy of the files of a packaged Salt, for the commands of the page that patch it."""

    def __init__(self, root: Path, folder: Path, version: str) -> None:
        """Copy the files of a release into a folder."""
        self.root, self.version = root, version
        self.site, self.exported = folder / "site", folder / "export"
        (packages,) = (salt_release.release(root, version) / "lib").glob("python3*/site-packages")
        self.original = packages / "salt"
        self.restore()

    def restore(self) -> None:
        """Do what the package does: write its own files, and leave others alone."""
        shutil.copytree(self.original, self.site / "salt", dirs_exist_ok=True)

    def files(self) -> dict[str, bytes]:
        """Return the content of each file that is no compiled one, by its path."""
        paths = [path for path in self.site.rglob("*") if path.is_file() and path.suffix != ".pyc"]
        return {str(path.relative_to(self.site)): path.read_bytes() for path in paths}

    def run(self, name: str) -> int:
        """Type the block with this marker, without the commands for the clone and the services."""
        page = blocks(self.root / "docs" / "install.md")
        text = next(block.text for block in page if block.markers.get("tested") == name)
        text = re.sub(r'cd "\$\(.*\)"', f"cd {self.site}", text).replace("/root/saltbed-export", str(self.exported))
        text = text.replace("systemctl restart salt-master", "true")
        lines = [line for line in text.splitlines() if not line.startswith(("nox ", "mkdir ", "systemctl "))]
        # without a terminal patch asks nothing, and takes its default
        command = ["bash", "-e", "-c", "\n".join(lines)]
        return subprocess.run(command, check=False, start_new_session=True).returncode

    def patch(self) -> None:
        """Export the patches for the release, and type the commands that patch it."""
        export = [sys.executable, "-m", "patches", "export", "--code", "--output", str(self.exported)]
        subprocess.run([*export, "--base", self.version], cwd=self.root, check=True)
        assert self.run("install-patches") == 0
        assert (self.site / "salt" / "utils" / "postgres" / "connection.py").exists()


@pytest.mark.parametrize("version", RELEASES)
def test_patches_for_an_installed_salt_and_back(root: Path, tmp_path: Path, version: str) -> None:
    """A release takes its patches (tested: install-patches), and is the same without them (tested: remove-patches)."""
    copy = Copy(root, tmp_path, version)
    before = copy.files()
    copy.patch()
    assert copy.run("remove-patches") == 0
    assert copy.files() == before
    assert not copy.exported.exists()


@pytest.mark.parametrize("version", RELEASES)
def test_patches_whose_files_the_package_has_replaced(root: Path, tmp_path: Path, version: str) -> None:
    """Nothing of the patches is left, and they can be applied again (tested: replaced-files)."""
    copy = Copy(root, tmp_path, version)
    before = copy.files()
    copy.patch()
    patched = copy.files()
    copy.restore()
    assert set(copy.files()) == set(patched) > set(before)
    # as somebody does who has not read that this can't be done any more
    assert copy.run("remove-patches") != 0
    assert any(name.endswith(".rej") for name in copy.files())
    assert copy.exported.exists()
    assert copy.run("replaced-files") == 0
    assert copy.files() == before
    assert not copy.exported.exists()
    copy.patch()
    assert copy.files() == patched


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
