"""What package states say is true on real managers: locks, unreadable repositories, busy managers, recoveries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from harness.processes.deadline import Deadline, until
from harness.saltprocess.process import SaltProcess
from tests.live.helpers.applied_states import COMPILER, TASKS, Bench, benched
from tests.live.helpers.apt_repository import Package
from tests.live.helpers.apt_root import AptRoot, roots
from tests.live.helpers.rpm_root import LOCKS, NOTES, RpmRoot, rpm_root
from tests.live.packages.test_states_busy import HOLD
from tests.live.packages.test_states_kills import _kill
from tests.live.packages.test_states_rpm import Rpms

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.needs_root, pytest.mark.timeout(900)]
REPO = "/etc/yum.repos.d/sb.repo /etc/zypp/repos.d/sb.repo"
# the second kernel takes a while to install
BUILD = r"""set -e
lua='%pre -p <lua>\nio.open("\/tmp\/begun", "w"):close()\nposix.sleep(5)\n'
sed "s/^Version.*/Version: 2.0/; s/^%description/$lua&/" /tmp/sb-kernel.spec > /tmp/slow.spec
rpmbuild -bb --quiet --define '_rpmdir /srv/rpms' --define '_topdir /tmp/rpmbuild' /tmp/slow.spec
"""


@pytest.fixture(scope="module")
def rpm_machine(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RpmRoot]:
    """Yield a root with dnf and zypper."""
    with rpm_root(root, tmp_path_factory) as made:
        made.publish(BUILD)
        yield made


@pytest.fixture(params=["dnf", "zypper"])
def rpms(rpm_machine: RpmRoot, request: pytest.FixtureRequest) -> Iterator[Rpms]:
    """Yield Salt on one of the managers, nothing of the repository installed."""
    rpm_machine.begin()
    with rpm_machine.caller_for(request.param) as salt, SaltProcess("patched", COMPILER, {}, TASKS) as compiler:
        yield Rpms(rpm_machine, salt, compiler, request.param)


@pytest.fixture(scope="module")
def machine(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AptRoot]:
    """Yield a root with apt."""
    yield from roots(root, tmp_path_factory)


@pytest.fixture
def bench(machine: AptRoot) -> Iterator[Bench]:
    """Yield Salt on apt."""
    with benched(machine) as found:
        yield found
        machine.run("rm", "-f", NOTES, "/etc/apt/preferences", "/etc/apt/preferences.d/99-x")
        found.apply()


def _kernels(root: RpmRoot) -> list[str]:
    return sorted(root.run("rpm", "-q", "sb-kernel", check=False).stdout.split())


BOTH = ["sb-kernel-1.0-1.noarch", "sb-kernel-2.0-1.noarch"]


def test_recovery_spares_a_second_kernel(rpms: Rpms) -> None:
    """The minion is killed while the second one is installed, and its manager goes on to the end."""
    root = rpms.root
    root.begin(sb_kernel="1.0-1")
    root.run("rm", "-f", "/tmp/begun")  # noqa: S108 - in the root
    text = rpms.compiler.run("render", [("sb-kernel", "latest", "")])[1]
    root.write("/srv/salt/susemanager/packages-web.sls", text)
    with root.caller_for(rpms.manager) as salt:
        salt.send("state.apply", "susemanager.packages-web")
        until((root.path / "tmp/begun").exists, Deadline(60), lambda: "the installation has not begun")
        _kill(salt, "minion")
    until(lambda: _kernels(root) == BOTH, Deadline(60), lambda: f"{_kernels(root)}")
    assert "sb-kernel" in root.read(NOTES)
    until(lambda: not root.run("pgrep", "-x", "dnf|zypper", check=False).stdout, Deadline(60), lambda: "it runs")
    found = rpms.run()
    assert _kernels(root) == BOTH
    assert found.failed == []
    assert "too early" in found.comment("locks")
    assert root.read(NOTES) == ""


def test_locks_that_cannot_be_set_leave_no_notes(rpm_machine: RpmRoot) -> None:
    """Without its plugin dnf installs, locks nothing, says so, and the next run erases nothing."""
    conf = "/etc/dnf/plugins/versionlock.conf"
    right = rpm_machine.read(conf)
    rpm_machine.begin(sb_kernel="1.0-1")
    rows = [("sb-kernel", "latest", ""), ("sb-lib", "installed", "=1.0")]
    with rpm_machine.caller_for("dnf") as salt, SaltProcess("patched", COMPILER, {}, TASKS) as compiler:
        rpms = Rpms(rpm_machine, salt, compiler, "dnf")
        rpm_machine.write(conf, right.replace("enabled = 1", "enabled = 0"))
        for found in (rpms.apply(*rows), rpms.run()):
            assert found.failed == ["locks"]
            assert f"{conf} says enabled = 0" in found.comment("locks")
            assert rpm_machine.read(NOTES) == ""
        assert _kernels(rpm_machine) == BOTH
        rpm_machine.write(conf, right)
        assert rpms.run().failed == []
        main = rpm_machine.read("/etc/dnf/dnf.conf")
        rpm_machine.write("/etc/dnf/dnf.conf", main + "plugins=0\n")
        found = rpms.run()
        rpm_machine.write("/etc/dnf/dnf.conf", main)
        assert found.failed == ["locks"]
        assert "/etc/dnf/dnf.conf says plugins = 0" in found.comment("locks")


def test_a_busy_zypper_knows_nothing(rpm_machine: RpmRoot) -> None:
    """Another program holds its lock: nothing is said to be right, nothing is sent, nothing is released."""
    rpm_machine.begin(sb_tool="1.0-1")
    with rpm_machine.caller_for("zypper") as salt, SaltProcess("patched", COMPILER, {}, TASKS) as compiler:
        rpms = Rpms(rpm_machine, salt, compiler, "zypper")
        rpms.settle(("sb-lib", "removed", "!=2.0"))
        locks = rpm_machine.read(LOCKS["zypper"])
        rpm_machine.run("sh", "-c", "sleep 600 > /dev/null 2>&1 & echo $! > /run/zypp.pid")
        try:
            found = rpms.apply(("sb-tool", "latest", ""), ("sb-lib", "removed", "!=2.0"))
            assert "sb-tool" in found.failed
            assert "zypper can't be asked" in found.comment("locks")
            with pytest.raises(RuntimeError, match="zypper can't be asked"):
                salt.cmd("package_state.inventory")
        finally:
            rpm_machine.run("sh", "-c", "kill $(cat /run/zypp.pid); rm /run/zypp.pid")
        assert rpm_machine.read(LOCKS["zypper"]) == locks
        rpms.settle(("sb-tool", "latest", ""), ("sb-lib", "removed", "!=2.0"))


@pytest.mark.parametrize("way", ["disabled", "unreadable"])
def test_locks_stay_while_rpm_repositories_are_away(rpms: Rpms, way: str) -> None:
    """Versions that are locked out stay locked out, and where a repository can't be read, that is said."""
    rows = [("sb-lib", "removed", "!=2.0"), ("sb-tool", "removed", "1.*")]
    rpms.settle(*rows)
    locks = rpms.root.read(LOCKS[rpms.manager])
    if way == "disabled":
        rpms.root.run("sh", "-c", f"sed -i s/enabled=1/enabled=0/ {REPO}")
    else:
        rpms.root.run("sh", "-c", f"mv /srv/rpms /srv/away; echo skip_if_unavailable=1 >> {REPO.split(maxsplit=1)[0]}")
        rpms.root.run("sh", "-c", "rm -rf /var/cache/dnf /var/cache/zypp/solv /var/cache/zypp/raw")
    try:
        found = rpms.run()
        assert rpms.root.read(LOCKS[rpms.manager]) == locks
        assert bool(found.failed) == (way == "unreadable")
        if way == "unreadable":
            assert "can't be read" in found.comment("sb-lib")
            with pytest.raises(RuntimeError, match="can't be read"):
                rpms.salt.cmd("package_state.inventory")
    finally:
        rpms.root.run(
            "sh",
            "-c",
            f"sed -i 's/enabled=0/enabled=1/; /skip_if/d' {REPO}; test -e /srv/rpms || mv /srv/away /srv/rpms",
        )
        rpms.root.publish("true")


@pytest.mark.parametrize("way", ["emptied", "vanished"])
def test_locks_stay_while_apt_repositories_are_away(bench: Bench, way: str) -> None:
    """As with rpm: emptied lists, and a repository on a medium that is away."""
    row = ("sb-tool", "removed", "<2.0~~")
    bench.apply(row)
    before = bench.root.read("/etc/apt/preferences.d/00salt-package-states")
    assert before.count("Pin-Priority: -1") == 3
    lists = "/var/lib/apt/lists"
    if way == "emptied":
        bench.root.run("sh", "-c", f"mkdir /tmp/lists; mv {lists}/_srv* /tmp/lists/")
    else:
        bench.root.run("sh", "-c", f"mkdir /tmp/lists; cp -L {lists}/_srv* /tmp/lists/; ln -sf /srv/no {lists}/_srv*")
    try:
        found = bench.run()
        assert bench.root.read("/etc/apt/preferences.d/00salt-package-states") == before
        assert found.failed
        assert "can't be read" in found.comment("sb-tool")
        with pytest.raises(RuntimeError, match="can't be read"):
            bench.salt.cmd("package_state.inventory")
    finally:
        bench.root.run("sh", "-c", f"rm -f {lists}/_srv*; mv /tmp/lists/* {lists}/; rmdir /tmp/lists")
    assert bench.run().failed == []


@pytest.mark.parametrize(
    ("place", "version", "priority"),
    [("/etc/apt/preferences", "*", 600), ("/etc/apt/preferences.d/99-x", "2.0", 1002)],
)
def test_a_pin_of_somebody_else_that_wins_is_told(bench: Bench, place: str, version: str, priority: int) -> None:
    """A lock that the next upgrade would pass by is no lock, whatever the file of Salt holds."""
    bench.begin("sb-tool", "1.0")
    bench.begin("sb-app", "")
    text = "Package: {}\nPin: version {}\nPin-Priority: {}\n"
    bench.root.write(place, text.format("sb-tool", version, priority) + "\n" + text.format("sb-app", "*", 600))
    found = bench.apply(("sb-tool", "installed", "<1.10"), ("sb-app", "removed", ""))
    assert "locks" in found.failed
    assert f"The lock of sb-tool is not in force, as {place}" in found.comment("locks")
    moves = "sb-tool" in bench.root.run("apt-get", "-s", "upgrade").stdout
    assert moves
    bench.root.run("rm", place)
    found = bench.run()
    assert found.failed == []
    assert "sb-tool" not in bench.root.run("apt-get", "-s", "upgrade").stdout
    bench.apply()
    bench.begin("sb-tool", "")


def test_an_inventory_tells_what_keeps_packages(bench: Bench) -> None:
    """Pins of Salt, those of an administrator, and what is half installed."""
    bench.begin("sb-tool", "1.0")
    bench.begin("sb-app", "1.0")
    bench.root.write("/etc/apt/preferences.d/99-x", "Package: sb-ap*\nPin: version 1.0\nPin-Priority: 1001\n")
    found = bench.apply(("sb-tool", "installed", ""), ("sb-nosuch", "removed", ""))
    assert found.failed == []
    there = bench.salt.cmd("package_state.inventory")
    assert isinstance(there, dict)
    held = {key for key, one in there["packages"].items() if one["held"]}
    assert held == {"sb-tool", "sb-app", "sb-nosuch"}
    bench.root.run("sh", "-c", "dpkg --force-all --unpack $(find /srv -name 'sb-tool_1.0*.deb' | head -1)")
    there = bench.salt.cmd("package_state.inventory")
    assert isinstance(there, dict)
    assert [key for key, one in there["packages"].items() if one.get("broken")] == ["sb-tool"]
    assert bench.run().failed == []
    bench.apply()
    bench.begin("sb-tool", "")
    bench.begin("sb-app", "")


def _broken(bench: Bench) -> None:
    """Leave sb-app 1.0 without the sb-lib that it needs."""
    bench.begin("sb-app", "1.0")
    bench.root.run("sh", "-c", "dpkg --remove --force-depends sb-lib")


def test_recovery_does_not_pass_by_what_is_protected(bench: Bench) -> None:
    """What apt would remove to meet dependencies stays, and the state says so, also beside a dry run."""
    root = bench.root
    root.repository.add([Package("sb-needs", "1.0", fields={"Depends": "sb-nowhere"})])
    root.update()
    root.run("dpkg", "-i", "--force-depends", "/srv/saltbed/sb-needs_1.0_all.deb")
    root.write(NOTES, json.dumps({"steps": [["sb-tool", "install", "1.0"]]}))
    try:
        found = bench.apply(("sb-tool", "installed", "=1.0"))
        assert bench.version("sb-needs") == "1.0"
        assert "locks" in found.failed
        assert "sb-needs would be removed" in found.comment("locks") + found.comment("sb-tool")
        assert root.read(NOTES)
    finally:
        root.run("dpkg", "--purge", "sb-needs")
        root.run("rm", "-f", NOTES)
        bench.begin("sb-tool", "")


def test_recovery_meets_dependencies_that_remove_nothing(bench: Bench) -> None:
    """What only has to come back comes back, and is told as a change."""
    _broken(bench)
    bench.root.write(NOTES, json.dumps({"steps": [["sb-app", "install", "1.0"]]}))
    found = bench.apply(("sb-app", "installed", "=1.0"))
    assert found.failed == []
    assert bench.version("sb-lib")
    assert "sb-lib" in found.changed["locks"]
    assert bench.root.read(NOTES) == ""
    bench.apply()
    bench.begin("sb-app", "")
    bench.begin("sb-lib", "")


def test_recovery_waits_for_the_lock_of_dpkg(bench: Bench) -> None:
    """It does not say that it has tidied up while another program changes packages."""
    root = bench.root
    bench.begin("sb-tool", "1.0")
    root.run("sh", "-c", "dpkg --unpack /srv/saltbed/sb-tool_1.2_all.deb")
    root.write(NOTES, json.dumps({"steps": [["sb-tool", "install", "1.2"]]}))
    with root.spawn("python3", "-c", HOLD, "/var/lib/dpkg/lock", "6", stdout=-1) as other:
        assert other.stdout
        assert other.stdout.readline() == "held\n"
        found = bench.apply(("sb-tool", "installed", "=1.2"))
    assert found.failed == []
    assert root.states("sb-tool")["sb-tool:all"] == ("installed", "1.2")
    assert root.read(NOTES) == ""
    bench.apply()
    bench.begin("sb-tool", "")


def test_a_state_alone_leaves_the_notes_of_a_killed_run(bench: Bench) -> None:
    """A package without the state of the locks is left as it is."""
    bench.begin("sb-tool", "")
    notes = json.dumps({"steps": [["sb-tool", "install", "1.2"]]})
    bench.root.write(NOTES, notes)
    found = bench.salt.cmd("state.single", "package_state.installed", "sb-tool")
    (state,) = found.values()
    assert state["result"] is False
    assert "package_state.locks" in state["comment"]
    assert bench.version("sb-tool") == ""
    assert bench.root.read(NOTES) == notes
    bench.root.run("rm", NOTES)


def test_removed_in_all_architectures(bench: Bench) -> None:
    """A bare name is removed in each architecture that is there, and an upgrade brings none back."""
    bench.root.run("dpkg", "--add-architecture", "i386")
    bench.root.update()
    bench.root.apt("install", "sb-lib=1.0", "sb-lib:i386=1.0")
    found = bench.apply(("sb-lib", "removed", ""))
    assert found.failed == []
    assert "sb-lib:i386" in found.changed["sb-lib"]
    assert bench.root.installed("sb-lib") == {}
    assert bench.root.apt("install", "sb-lib:i386", check=False).returncode


def test_a_virtual_package_is_not_absent(bench: Bench) -> None:
    """Where another package provides the name, nothing is locked, and that package is named."""
    bench.root.repository.add([Package("sb-real", "1.0", fields={"Provides": "sb-virtual"})])
    bench.root.update()
    bench.root.apt("install", "sb-real")
    found = bench.apply(("sb-virtual", "removed", ""))
    assert found.failed == ["sb-virtual"]
    assert "sb-real provides it" in found.comment("sb-virtual")
    assert "locks" not in found.changed
    bench.root.apt("purge", "sb-real")


def test_present_welcomes_updates(bench: Bench) -> None:
    """What is present is installed, and no lock keeps it from a newer version."""
    bench.begin("sb-tool", "")
    found = bench.apply(("sb-tool", "present", "<2.0~~"))
    assert found.failed == []
    assert bench.version("sb-tool") == "1.10"
    assert "sb-tool" in bench.root.run("apt-get", "-s", "upgrade").stdout
    assert bench.run().changed == {}
    bench.begin("sb-tool", "")
