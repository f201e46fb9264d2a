"""The beacon `pkgset` with the real apt and dpkg, at ticks that the test counts.

What check 9 of package states says, without a minion and a master around: `test_package_detection.py` has those.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.live.helpers.apt_root import AptRoot, Caller, roots
from tests.live.helpers.beacon_bed import INSTALL, INTERVAL

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.live, pytest.mark.needs_root, pytest.mark.timeout(600)]

SCRIPT = Path(__file__).parents[1] / "helpers" / "apt_beacon.py"
CHANGED = "salt/beacon/apt-root/pkgset/changed"
OWN_CHANGE = "salt/beacon/apt-root/pkgset/own"
COOKIE = "/var/cache/salt/minion/dpkg.cookie"
OPTIONS = {"file_client": "local", "id": "apt-root", "beacons": {"pkgset": {"interval": INTERVAL}}}
# ticks in which a second event would come, several times over
MANY = 5 * INTERVAL


class Beacons:
    """The beacons of the root's minion, in a process of their own."""

    def __init__(self, root: AptRoot) -> None:
        """Start it."""
        pipe = subprocess.PIPE
        self._process = root.spawn(sys.executable, str(SCRIPT), stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)

    def tick(self, count: int, kind: str = CHANGED) -> list[int]:
        """Do so many ticks and return which of them had the event, the first is 1; once for each event."""
        assert self._process.stdin
        assert self._process.stdout
        print(count, file=self._process.stdin, flush=True)
        ticks = json.loads(self._process.stdout.readline())
        assert {tag for tags in ticks for tag in tags} <= {CHANGED, OWN_CHANGE}
        return [number for number, tags in enumerate(ticks, 1) for tag in tags if tag == kind]

    def stop(self) -> None:
        """End it."""
        with self._process:
            self._process.kill()


@pytest.fixture(scope="module")
def apt_root(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AptRoot]:
    """Yield a root with the hook of dpkg."""
    for found in roots(root, tmp_path_factory):
        found.run(sys.executable, "-c", INSTALL)
        found.write("/etc/salt/minion", yaml.safe_dump(OPTIONS))
        yield found


@pytest.fixture(scope="module")
def beacons(apt_root: AptRoot) -> Iterator[Beacons]:
    """Yield beacons that have looked once."""
    found = Beacons(apt_root)
    assert found.tick(MANY) == []
    yield found
    found.stop()


@pytest.fixture(scope="module")
def salt(apt_root: AptRoot) -> Iterator[Caller]:
    """Yield Salt in the root."""
    with apt_root.caller(**OPTIONS) as found:
        yield found


CHANGES = {
    "installed by apt": ["apt-get", "-y", "install", "sb-app=1.0", "sb-lib=1.0"],
    "upgraded by apt": ["apt-get", "-y", "install", "sb-app=2.0", "sb-lib=2.0"],
    "installed by dpkg": ["dpkg", "-i", "/srv/saltbed/sb-tool_1.0_all.deb"],
    "held": ["apt-mark", "hold", "sb-tool"],
    "released": ["apt-mark", "unhold", "sb-tool"],
    "selected": ["sh", "-c", "echo sb-tool deinstall | dpkg --set-selections"],
    "removed by dpkg": ["dpkg", "--remove", "sb-tool"],
    "purged by apt": ["apt-get", "-y", "purge", "sb-app", "sb-lib", "sb-tool"],
}
# dpkg calls no hook for these
NO_HOOK = {"held", "released", "selected"}


@pytest.mark.parametrize("change", CHANGES)
def test_change_from_outside_is_one_event(apt_root: AptRoot, beacons: Beacons, change: str) -> None:
    """Whatever changes packages or selections, one event comes within the interval plus one tick."""
    cookie = apt_root.read(COOKIE)
    apt_root.run(*CHANGES[change])
    assert (apt_root.read(COOKIE) != cookie) is (change not in NO_HOOK)
    (tick,) = beacons.tick(MANY)
    assert tick <= INTERVAL + 1


def test_no_change_is_no_event_with_both_cookies(apt_root: AptRoot, beacons: Beacons) -> None:
    """With the cookie of rpm beside dpkg's, a hundred ticks without a change are none with an event."""
    assert apt_root.read(COOKIE)
    apt_root.write("/var/cache/salt/minion/rpmdb.cookie", "0" * 64 + " 1\n")
    assert len(beacons.tick(MANY)) == 1
    assert beacons.tick(100) == []


OWN = {
    "pkg.install": ["sb-tool"],
    "pkg.upgrade": [],
    "pkg.hold": ["sb-tool"],
    "pkg.unhold": ["sb-tool"],
    "pkg.remove": ["sb-tool"],
    "pkg.purge": ["sb-app"],
}


def test_salts_own_changes_are_another_event(apt_root: AptRoot, beacons: Beacons, salt: Caller) -> None:
    """Salt's own install, upgrade, hold, remove and purge are told as Salt's, and leave the cookie as it was."""
    apt_root.apt("install", "sb-app=1.0", "sb-lib=1.0")
    assert len(beacons.tick(MANY)) == 1
    cookie = apt_root.read(COOKIE)
    for function, arguments in OWN.items():
        before = apt_root.read("/var/lib/dpkg/status")
        salt.cmd(function, *arguments)
        assert apt_root.read("/var/lib/dpkg/status") != before, f"{function} has changed nothing"
        assert len(beacons.tick(MANY, OWN_CHANGE)) == 1, function
        assert beacons.tick(MANY) == [], function
    assert apt_root.read(COOKIE) == cookie


def test_change_before_salts_own_is_an_event(apt_root: AptRoot, beacons: Beacons, salt: Caller) -> None:
    """A change from outside that Salt's own follows before the next look is not taken for Salt's."""
    apt_root.run("apt-get", "-y", "install", "sb-n01")
    salt.cmd("pkg.install", "sb-n02")
    assert len(beacons.tick(MANY)) == 1


def test_change_while_nobody_looked_is_one_event(apt_root: AptRoot, beacons: Beacons) -> None:
    """What was changed while the minion was down is reported once when it is back, and no change is none."""
    beacons.stop()
    for number in range(3):
        apt_root.apt("install", f"sb-n1{number}")
    later = Beacons(apt_root)
    assert len(later.tick(MANY)) == 1
    later.stop()
    last = Beacons(apt_root)
    assert last.tick(MANY) == []
    last.stop()
