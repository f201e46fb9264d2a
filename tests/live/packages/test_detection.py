"""Packages that are changed behind Salt's back on a real minion, and what the master hears of it.

Check 9 of package states; `test_package_beacon.py` has the same in less time, without minion and master.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.helpers.beacon_bed import CHANGED, INTERVAL, TICK, PackageBed, package_bed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.needs_root, pytest.mark.timeout(900)]

COOKIE = "/var/cache/salt/minion/dpkg.cookie"
# further ticks in which a second event would come
LONG_ENOUGH = INTERVAL + 2


@pytest.fixture(scope="module")
def packages(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PackageBed]:
    """Yield a bed whose minion runs."""
    with package_bed(root, tmp_path_factory) as found:
        found.start()
        yield found


def one_event(packages: PackageBed, change: Callable[[], object]) -> int:
    """Change something, and return how many whole ticks passed until the one event of it.

    A tick that was under way may be counted too; none of the master's is.
    """
    begin = packages.heard()
    change()
    done = packages.heard()
    packages.bus.wait(lambda: CHANGED in packages.events_after(begin), "there was no event")
    packages.pass_ticks(LONG_ENOUGH)
    assert packages.events_after(begin).count(CHANGED) == 1
    # a change that takes longer than a tick may be seen before its command has ended
    return [*packages.events_after(done), CHANGED].index(CHANGED)


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


@pytest.mark.parametrize("command", CHANGES.values(), ids=CHANGES)
def test_change_from_outside_is_one_event(packages: PackageBed, command: list[str]) -> None:
    """Whatever changes packages or selections, one event comes within the interval plus one tick."""
    ticks = one_event(packages, lambda: packages.root.run(*command))
    assert ticks <= INTERVAL + 1


def test_salts_own_changes_are_no_event(packages: PackageBed) -> None:
    """Salt's own install, upgrade, hold, remove and purge raise nothing and leave the cookie as it was."""
    root = packages.root
    root.apt("install", "sb-app=1.0", "sb-lib=1.0")
    packages.pass_ticks(LONG_ENOUGH)
    begin, cookie = packages.changes(), root.read(COOKIE)
    assert cookie
    assert packages.do("pkg.install", "sb-tool")["sb-tool"]["new"] == "2.0"
    assert packages.do("pkg.upgrade")["sb-app"] == {"old": "1.0", "new": "2.0"}
    assert packages.do("pkg.hold", "sb-tool")["sb-tool"]["result"] is True
    assert root.holds() == ["sb-tool"]
    packages.pass_ticks(LONG_ENOUGH)
    assert packages.do("pkg.unhold", "sb-tool")["sb-tool"]["result"] is True
    assert packages.do("pkg.remove", "sb-tool")["sb-tool"]["new"] == ""
    assert packages.do("pkg.purge", "sb-app")["installed"]["sb-app"]["new"] == ""
    packages.pass_ticks(LONG_ENOUGH)
    assert packages.changes() == begin
    assert root.read(COOKIE) == cookie


def test_change_before_salts_own_is_an_event(packages: PackageBed) -> None:
    """A change from outside that Salt's own follows at once, in the same interval, is not taken for Salt's."""
    begin = packages.heard()
    packages.root.apt("install", "sb-n01")
    assert packages.do("pkg.install", "sb-n02")
    packages.bus.wait(lambda: CHANGED in packages.events_after(begin), "there was no event")


def test_change_while_the_minion_was_down_is_one_event(packages: PackageBed) -> None:
    """What was changed while the minion was down is reported once when it is back, and no change is none."""
    packages.stop()
    begin = packages.heard()
    for number in range(3):
        packages.root.apt("install", f"sb-n1{number}")
    packages.start()
    packages.pass_ticks(LONG_ENOUGH)
    assert packages.events_after(begin).count(CHANGED) == 1
    packages.stop()
    begin = packages.heard()
    packages.start()
    packages.pass_ticks(LONG_ENOUGH)
    assert set(packages.events_after(begin)) == {TICK}
