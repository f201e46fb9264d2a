"""The root that package tests change: it is real, and nothing of it reaches the machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.live.helpers.apt_root import AptRoot, roots

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.live, pytest.mark.needs_root]


@pytest.fixture(scope="module")
def apt_root(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AptRoot]:
    """Yield a root."""
    yield from roots(root, tmp_path_factory)


def test_packages_are_installed_in_the_root_only(apt_root: AptRoot) -> None:
    """What apt installs in the root is there, with its dependency, and not on the machine."""
    apt_root.apt("install", "sb-app=1.0", "sb-lib=1.0", "sb-tool=1.2")
    found = {name.split(":")[0]: version for name, version in apt_root.installed().items()}
    assert found == {"sb-app": "1.0", "sb-lib": "1.0", "sb-tool": "1.2"}
    assert apt_root.read("/etc/sb-tool.conf") == "as shipped\n"
    assert not Path("/etc/sb-tool.conf").exists()
    assert "sb-tool" not in Path("/var/lib/dpkg/status").read_text()


def test_salt_changes_packages_in_the_root(apt_root: AptRoot) -> None:
    """Salt's own package functions and states work in the root without a master."""
    apt_root.write("/srv/salt/tool.sls", "sb-tool:\n  pkg.installed:\n    - version: '2.0'\n")
    with apt_root.caller() as salt:
        assert salt.cmd("pkg.version_cmp", "2.0~rc1", "2.0") == -1
        (first,), (second,) = (salt.cmd("state.apply", "tool").values() for _ in range(2))
    assert first["changes"]["sb-tool"]["new"] == "2.0"
    assert second["changes"] == {}
    assert apt_root.installed()["sb-tool:all"] == "2.0"
