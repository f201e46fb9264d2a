"""The hooks of package states' change detection, called by the real dnf and zypper."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.helpers.rpm_root import MANAGERS

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.needs_root, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[1] / "helpers" / "rpm_root.sh"
COOKIE = "/var/cache/salt/minion/rpmdb.cookie"
PLUGIN = "import saltext.package_states.modules.pkgset as pkgset"
#: What is done, and whether the beacon has to see it.
STEPS = (
    ("dnf -y -q install sb-one", True),
    ("SALT_RUNNING=1 dnf -y -q install sb-two", False),
    ("zypper -n install sb-three", True),
    ("zypper -n repos", False),
    ("SALT_RUNNING=1 zypper -n remove sb-two", False),
    ("zypper -n remove sb-three", True),
    (f'{sys.executable} -c "{PLUGIN}; pkgset.remove_plugin()"', False),
    ("dnf -y -q remove sb-one", False),
)


def test_real_package_managers(tmp_path: Path) -> None:
    """A change writes the cookie, a change of Salt's own doesn't, and a removed hook neither."""
    if not shutil.which("apt-get"):
        pytest.skip("needs apt-get: dnf and zypper are installed from Debian's packages")
    script = [f'{sys.executable} -c "{PLUGIN}; pkgset.install_plugin()" >&2']
    for command, _ in STEPS:
        # a second of its own, as the cookie has the time in seconds
        script += ["sleep 1.1", f"{command} >&2", f"cat {COOKIE} || echo none"]
    (tmp_path / "script.sh").write_text("\n".join(script) + "\n")
    top = tmp_path / "top"
    top.mkdir()
    space = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
    run = [*space, "bash", str(ROOT), str(top), str(tmp_path / "script.sh"), str(MANAGERS)]
    done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    cookies = ["none", *done.stdout.splitlines()]
    assert len(cookies) == len(STEPS) + 1
    told = [
        (command, after != before) for (command, _), before, after in zip(STEPS, cookies, cookies[1:], strict=False)
    ]
    assert told == list(STEPS)
