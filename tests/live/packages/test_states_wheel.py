"""The SLS file that puts the wheel of package states on minions: once, again for another wheel, and with a restart."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from typing import TYPE_CHECKING, Any

import pytest

from harness.processes.deadline import Deadline, until
from tests.live.helpers import salt_release

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

FILE = "salt/extensions/package-states/files/package-states.sls"
INSTALLED = "package states are installed"


def test_wheel_comes_once_and_the_minion_restarts(root: Path, tmp_path: Path) -> None:
    """A run installs the wheel that is there and restarts the minion; the next one changes nothing."""
    # what is below the Python of the tests is seen, and never written to
    subprocess.run([sys.executable, "-m", "virtualenv", "--quiet", str(tmp_path / "venv")], check=True)
    site = next((tmp_path / "venv" / "lib").glob("python3*")) / "site-packages"
    (site / "base.pth").write_text(f"{root / 'salt'}\n{sysconfig.get_path('purelib')}\n")
    files, tools = tmp_path / "srv", tmp_path / "bin"
    there = files / "saltext-package-states"
    there.mkdir(parents=True)
    shutil.copy(root / FILE, files)
    tools.mkdir()
    (tools / "systemctl").write_text(f'#!/bin/sh\ncase "$1" in restart) echo "$2" >> {tmp_path}/restarts; esac\n')
    (tools / "systemctl").chmod(0o755)
    settings = {"root_dir": str(tmp_path), "file_client": "local", "id": "web1", "file_roots": {"base": [str(files)]}}
    restarts = tmp_path / "restarts"

    def answer(lists_kept: int = 0) -> object:
        """Apply the SLS file, with lists of files that may be so many seconds old."""
        (tmp_path / "minion").write_text(json.dumps({**settings, "fileserver_list_cache_time": lists_kept}))
        code = "from salt.scripts import salt_call; salt_call()"
        options = [f"--config-dir={tmp_path}", "--local", "--out=json", "state.apply", "package-states"]
        done = subprocess.run(
            [str(tmp_path / "venv" / "bin" / "python"), "-c", code, *options],
            env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        return json.loads(done.stdout)["local"]

    def run() -> dict[str, Any]:
        found = answer()
        assert isinstance(found, dict), found
        assert all(state["result"] for state in found.values()), found
        return {state["__id__"]: state["changes"] for state in found.values() if state["changes"]}

    def install(wheel: Path, number: int) -> str:
        """Put a wheel there and run the state, and return the version that is installed then."""
        for old in there.glob("*"):
            old.unlink()
        shutil.copy(wheel, there)
        assert INSTALLED in run()
        until(
            lambda: restarts.exists() and restarts.read_text().split() == ["salt-minion"] * number,
            Deadline(60),
            lambda: "nothing restarts the minion",
        )
        (found,) = site.glob("saltext_package_states-*.dist-info")
        return found.name.removesuffix(".dist-info").partition("-")[2]

    (wheel,) = (one for one in salt_release.wheels(root, tmp_path) if one.name.startswith("saltext_package_states-"))
    assert install(wheel, 1) == wheel.name.split("-")[1]
    assert (site / "saltext" / "package_states").is_dir()
    assert run() == {}
    newer = salt_release.newer_wheel(root, "package-states", tmp_path / "newer", "SELECT 1;")
    answer(lists_kept=3600)
    (there / wheel.name).unlink()
    shutil.copy(newer, there)
    assert "is listed and not there" in str(answer(lists_kept=3600))
    assert install(newer, 2) == "99.0"
