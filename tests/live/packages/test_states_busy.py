"""Package states beside another apt at work, and after a kill in the middle of an unpacking, on real apt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.processes.deadline import Deadline, until
from tests.live.helpers.applied_states import Bench, benched
from tests.live.helpers.apt_root import AptRoot, roots

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.needs_root, pytest.mark.timeout(600)]
# holds a lock as apt does, for so many seconds
HOLD = """
import fcntl, sys, time
handle = open(sys.argv[1], "w")
fcntl.lockf(handle, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(float(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def machine(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AptRoot]:
    """Yield a root."""
    yield from roots(root, tmp_path_factory)


@pytest.fixture
def bench(machine: AptRoot) -> Iterator[Bench]:
    """Yield Salt in the root."""
    with benched(machine) as found:
        yield found


@pytest.mark.parametrize("lock", ["/var/lib/apt/lists/lock", "/var/lib/dpkg/lock-frontend"])
def test_another_apt_is_waited_for(bench: Bench, lock: str) -> None:
    """An update or an installation of somebody else, or of a run that was killed, ends first."""
    bench.begin("sb-tool", "1.0")
    other = bench.root.spawn("python3", "-c", HOLD, lock, "6", stdout=-1)
    with other:
        assert other.stdout
        assert other.stdout.readline() == "held\n"
        found = bench.apply(("sb-tool", "installed", ">=1.10"))
    assert found.failed == []
    assert bench.version("sb-tool") == "2.0"
    bench.begin("sb-tool", "")


BUILD = """set -e
rm -rf /tmp/slow /tmp/begun
mkdir -p /tmp/slow/DEBIAN
printf '%s\\n' 'Package: sb-tool' 'Version: 1.0' 'Architecture: all' 'Maintainer: t' 'Description: t' \\
    > /tmp/slow/DEBIAN/control
printf '#!/bin/sh\\ntouch /tmp/begun\\nsleep 60\\n' > /tmp/slow/DEBIAN/$1
chmod 755 /tmp/slow/DEBIAN/$1
dpkg-deb --root-owner-group -Znone --build /tmp/slow /tmp/slow.deb
"""


@pytest.mark.parametrize("script", ["preinst", "postinst"])
@pytest.mark.parametrize("wanted", ["installed", "removed", "purged"])
def test_a_package_that_was_half_installed(bench: Bench, script: str, wanted: str) -> None:
    """What a killed run left in the middle is done or undone by the next one, whatever that wants."""
    root = bench.root
    root.run("sh", "-c", BUILD, "sh", script)
    with root.spawn("dpkg", "-i", "/tmp/slow.deb", stdout=-3, stderr=-3):  # noqa: S108 - in the root
        until((root.path / "tmp/begun").exists, Deadline(60), lambda: "dpkg has not begun")
        root.run("sh", "-c", "kill -9 $(pidof dpkg) $(pidof sleep)", check=False)
    root.write("/var/lib/salt/package_states.run.json", "{}")
    print(root.states("sb-tool"))
    found = bench.apply(("sb-tool", wanted, "=1.0" if wanted == "installed" else ""))
    assert found.failed == []
    assert bench.version("sb-tool") == ("1.0" if wanted == "installed" else "")
    assert root.run("dpkg", "--audit").stdout == ""
    assert bench.run().changed == {}
    bench.apply()
    bench.begin("sb-tool", "")
