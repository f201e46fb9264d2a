"""Package states on real dnf and zypper: every policy from every beginning, one call for all, locks, priorities."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from harness.saltprocess.process import SaltProcess
from tests.live.helpers.applied_states import COMPILER, TASKS, Applied
from tests.live.helpers.rpm_root import LOCKS, RECORD, RpmRoot, rpm_root

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.live.helpers.apt_root import Caller

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.needs_root, pytest.mark.timeout(900)]
BEGINNINGS = ("", "1.0-1", "1.10-1", "2.0-1")
# wanted, condition, what is right afterwards: by what was there (absent, lower, equal, higher)
POLICIES = [
    ("installed", "", ("2.0", "1.0", "1.10", "2.0")),
    ("installed", "=1.10", ("1.10", "1.10", "1.10", "1.10")),
    ("installed", "=1.10-1", ("1.10", "1.10", "1.10", "1.10")),
    ("installed", "<1.10", ("1.2", "1.0", "1.2", "1.2")),
    ("installed", "<=1.10", ("1.10", "1.0", "1.10", "1.10")),
    ("installed", ">1.10", ("2.0", "2.0", "2.0", "2.0")),
    ("installed", ">=1.10", ("2.0", "2.0", "1.10", "2.0")),
    ("installed", "!=1.10", ("2.0", "1.0", "2.0", "2.0")),
    ("installed", ">=1.2,<2.0~~", ("1.10", "1.10", "1.10", "1.10")),
    ("installed", "1.*", ("1.10", "1.0", "1.10", "1.10")),
    ("latest", "", ("2.0", "2.0", "2.0", "2.0")),
    ("removed", "", ("", "", "", "")),
    ("removed", "=1.10", ("", "1.0", "", "2.0")),
    ("removed", "<=1.10", ("", "", "", "2.0")),
    ("removed", "!=1.10", ("", "", "1.10", "")),
    ("kept", "=1.2", ("1.2", "1.2", "1.2", "1.2")),
]


class Rpms:
    """A root, Salt in it, and the compiler of the patched tree outside."""

    def __init__(self, root: RpmRoot, salt: Caller, compiler: SaltProcess, manager: str) -> None:
        """Take all of them."""
        self.root = root
        self.salt = salt
        self.manager = manager
        self.compiler = compiler

    def apply(self, *rows: tuple[str, ...], test: bool = False, name: str = "web") -> Applied:
        """Compile entries (package, wanted, version, floor) and apply the file."""
        text = self.compiler.run("render", rows)[1]
        self.root.write(f"/srv/salt/susemanager/packages-{name}.sls", text)
        return self.run(test=test)

    def run(self, *, test: bool = False) -> Applied:
        """Apply the file once more."""
        found = self.salt.cmd("state.apply", "susemanager.packages-web", test=test)
        assert isinstance(found, dict), found
        states = {key.split("_|-")[1].removeprefix("package_states "): state for key, state in found.items()}
        print({name: (state["result"], state["comment"], state["changes"]) for name, state in states.items()})
        return Applied(states)

    def settle(self, *rows: tuple[str, ...]) -> Applied:
        """Apply entries without a failure, and once more without a change."""
        first = self.apply(*rows)
        assert first.failed == []
        again = self.run()
        assert (again.changed, again.failed) == ({}, [])
        return first

    def version(self, package: str) -> str:
        """Return the installed version of a package without its release, or an empty string."""
        return self.root.installed().get(package, "").removesuffix("-1")

    def tool(self, *arguments: str) -> str:
        """Call the package manager as a person would, and return what it says."""
        argv = ("dnf", "-y") if self.manager == "dnf" else ("zypper", "-n")
        done = self.root.run(*argv, *arguments, check=False)
        return done.stdout + done.stderr

    def owners(self) -> tuple[set[str], set[str]]:
        """Return the locks that there are, and those that Salt has written down."""
        record = json.loads(self.root.read(RECORD) or "{}")
        mine = {lock for there in record.values() for lock in there["locks"]}
        text = self.root.read(LOCKS[self.manager])
        if self.manager == "dnf":
            return {line for line in text.splitlines() if line and not line.startswith("#")}, mine
        found = set()
        for block in text.split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
            if fields:
                version = fields.get("version", "").replace(" ", "").replace("==", "=")
                found.add(fields["solvable_name"] + version)
        return found, mine


@pytest.fixture(scope="module")
def machine(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RpmRoot]:
    """Yield a root."""
    with rpm_root(root, tmp_path_factory) as made:
        yield made


@pytest.fixture(scope="module", params=["dnf", "zypper"])
def rpms(machine: RpmRoot, request: pytest.FixtureRequest) -> Iterator[Rpms]:
    """Yield Salt on one of the managers."""
    with (
        machine.caller_for(request.param) as salt,
        SaltProcess("patched", COMPILER, {}, TASKS) as compiler,
    ):
        yield Rpms(machine, salt, compiler, request.param)


@pytest.mark.parametrize("begin", range(4), ids=("absent", "lower", "equal", "higher"))
@pytest.mark.parametrize(("wanted", "condition", "right"), POLICIES, ids=str)
def test_policies(rpms: Rpms, wanted: str, condition: str, right: tuple[str, ...], begin: int) -> None:
    """Each policy is reached from absent, lower, equal and higher, and a second run changes nothing."""
    there = BEGINNINGS[begin]
    rpms.root.begin(**({"sb_tool": there} if there else {}))
    first = rpms.settle(("sb-tool", wanted, condition))
    assert rpms.version("sb-tool") == right[begin]
    assert ("sb-tool" in first.changed) == (there.removesuffix("-1") != right[begin])
    there_now, mine = rpms.owners()
    assert there_now == mine


@pytest.mark.parametrize(
    ("package", "condition", "begin", "right"),
    [
        ("sb-epoch", "=1:0.5", "0.9-1", "1:0.5"),
        ("sb-epoch", ">=1:0", "0.9-1", "1:0.5"),
        ("sb-epoch", "=0.9", "", "0.9"),
        ("sb-caret", ">1.0", "1.0-1", "1.0^git1"),
        ("sb-caret", "=1.0-1", "", "1.0"),
        ("sb-tool", "=2.0~rc1", "2.0-1", "2.0~rc1"),
        ("sb-tool", "<2.0", "2.0-1", "2.0~rc1"),
    ],
    ids=str,
)
def test_special_versions(rpms: Rpms, package: str, condition: str, begin: str, right: str) -> None:
    """What looks like another version, or like none, is taken as it is written."""
    rpms.root.begin(**({package.replace("-", "_"): begin} if begin else {}))
    rpms.settle((package, "installed", condition))
    assert rpms.version(package) == right


def test_thirty_that_need_each_other_go_back_in_one_call(rpms: Rpms) -> None:
    """A rollback of packages that depend on each other's version is one transaction, also beside one that can't be."""
    names = [f"sb-c{number}" for number in range(10, 40)]
    rpms.root.begin(**{name.replace("-", "_"): "2.0-1" for name in names})
    rpms.settle(*[(name, "installed", "=1.0") for name in names])
    assert {rpms.root.installed()[name] for name in names} == {"1.0-1"}
    found = rpms.apply(*[(name, "installed", "=2.0") for name in names], ("sb-lost", "latest"))
    assert found.failed == ["sb-lost"]
    assert "sb-nowhere" in found.comment("sb-lost")
    assert {rpms.root.installed()[name] for name in names} == {"2.0-1"}


def test_a_dry_run_of_what_is_locked(rpms: Rpms) -> None:
    """A locked package that is to change is no error: the run that is tried is the one that is done."""
    rpms.root.begin(sb_tool="1.2-1", sb_epoch="0.9-1")
    rpms.settle(("sb-tool", "installed"), ("sb-epoch", "installed"))
    found = rpms.apply(("sb-tool", "installed", ">=2.0"), ("sb-epoch", "removed"), test=True)
    assert found.failed == []
    assert found.changed["sb-tool"] == {"sb-tool": {"old": "1.2-1", "new": "2.0-1"}}
    assert found.changed["sb-epoch"] == {"sb-epoch": {"old": "0.9-1", "new": ""}}
    assert rpms.version("sb-tool") == "1.2"
    plan = rpms.salt.cmd("package_state.plan", [["sb-tool", "installed", ">=2.0"], ["sb-epoch", "removed"]])
    assert {key: entry["action"] for key, entry in plan.items()} == {"sb-tool": "install", "sb-epoch": "remove"}
    assert rpms.run().failed == []
    assert rpms.version("sb-tool") == "2.0"
    assert rpms.run().changed == {}


def test_a_vanished_package_keeps_no_other_from_its_lock(rpms: Rpms) -> None:
    """A kept orphan that somebody removed is named; all other locks are set and released."""
    rpms.root.begin(sb_tool="1.2-1", sb_epoch="0.9-1")
    rpms.settle(("sb-tool", "kept"), ("sb-epoch", "kept"))
    rpms.root.run("rpm", "-e", "sb-tool")
    rpms.root.publish("mv /srv/rpms/noarch/sb-tool-1.2-1.noarch.rpm /srv/")
    try:
        found = rpms.apply(("sb-tool", "kept"), ("sb-unwanted", "removed"))
    finally:
        rpms.root.publish("mv /srv/sb-tool-1.2-1.noarch.rpm /srv/rpms/noarch")
    assert found.failed == ["sb-tool"]
    assert "no repository has that version" in found.comment("sb-tool")
    there, mine = rpms.owners()
    assert there == mine
    # the impossible entry keeps the lock that it had
    assert any("sb-tool" in lock for lock in there)
    assert not any("sb-epoch" in lock for lock in there)
    assert any("sb-unwanted" in lock for lock in there)
    rpms.apply()
    assert rpms.owners() == (set(), set())


def test_priorities_of_repositories(rpms: Rpms) -> None:
    """`latest` is what the manager would take, also beside a newer version in a repository that counts less."""
    rpms.root.begin(sb_tool="1.2-1")
    files = ("/etc/yum.repos.d/low.repo", "/etc/zypp/repos.d/low.repo")
    rpms.root.run("sed", "-i", "s/enabled=0/enabled=1/", *files)
    try:
        rpms.settle(("sb-tool", "latest"))
        assert rpms.version("sb-tool") == "2.0"
        rpms.settle(("sb-tool", "installed", "=3.0"))
        assert rpms.version("sb-tool") == "3.0"
        inventory = rpms.salt.cmd("package_state.inventory")["packages"]["sb-tool"]
        assert inventory["candidate"] == "2.0-1"
        assert "3.0-1" in inventory["available"]
    finally:
        rpms.root.run("sed", "-i", "s/enabled=1/enabled=0/", *files)


def test_an_absent_package_stays_away(rpms: Rpms) -> None:
    """Neither people nor dependencies bring it back, not even tomorrow's version; a name of nothing is locked once."""
    rpms.root.begin(sb_unwanted="1.0-1")
    rpms.settle(("sb-unwanted", "removed"), ("sb-nosuch", "removed"))
    build = "rpmbuild -bb --quiet --define '_rpmdir /srv/rpms' --define '_topdir /tmp/rpmbuild' new.spec"
    rpms.root.publish(f"cd /tmp && sed s/2.0/9.0/ sb-unwanted.spec > new.spec && {build}")
    for name in ("sb-unwanted", "sb-puller"):
        rpms.tool("install", name)
        assert rpms.root.installed() == {}, name
    found = rpms.apply(("sb-unwanted", "removed"), ("sb-puller", "installed"))
    assert found.failed == ["sb-puller"]
    assert "sb-unwanted" in found.comment("sb-puller")
    rpms.root.publish("rm /srv/rpms/noarch/sb-unwanted-9.0-1.noarch.rpm")
    rpms.settle()
    rpms.tool("install", "sb-puller")
    assert rpms.version("sb-unwanted") == "2.0"


def test_versions_are_locked_out(rpms: Rpms) -> None:
    """Some versions stay away, and others may come."""
    rpms.root.begin(sb_tool="1.10-1")
    rpms.settle(("sb-tool", "removed", ">=1.10,<2.0"), ("sb-caret", "removed", "<=1.0-1"))
    rpms.tool("install", "sb-tool-1.10" if rpms.manager == "dnf" else "sb-tool=1.10")
    assert rpms.version("sb-tool") == ""
    rpms.tool("install", "sb-tool", "sb-caret")
    assert (rpms.version("sb-tool"), rpms.version("sb-caret")) == ("2.0", "1.0^git1")


def test_locks_of_others_stay(rpms: Rpms) -> None:
    """What others have locked is left alone, and named if it would have to change."""
    rpms.root.begin(sb_tool="1.2-1", sb_epoch="0.9-1")
    rpms.tool(*(("versionlock", "add") if rpms.manager == "dnf" else ("addlock",)), "sb-tool")
    before, _ = rpms.owners()
    found = rpms.apply(("sb-tool", "latest"), ("sb-epoch", "installed"))
    assert found.failed == ["sb-tool"]
    assert "held" in found.comment("sb-tool")
    rpms.settle(("sb-tool", "installed"))
    rpms.settle()
    assert rpms.owners() == (before, set())


def test_a_lock_of_others_that_leaves_versions_free(rpms: Rpms) -> None:
    """Somebody keeps one version away: the version that is there is frozen all the same, and theirs stays."""
    rpms.root.begin(sb_tool="1.2-1", sb_epoch="0.9-1")
    dnf = rpms.manager == "dnf"
    rpms.tool(*(("versionlock", "exclude", "sb-tool-1.10-1") if dnf else ("addlock", "sb-tool = 1.10-1")))
    before, _ = rpms.owners()
    assert before
    rpms.settle(("sb-tool", "installed"), ("sb-epoch", "present"))
    found = rpms.salt.cmd("package_state.inventory")
    assert isinstance(found, dict)
    assert found["packages"]["sb-tool"]["held"] is True
    rpms.tool(*(("upgrade",) if dnf else ("update",)))
    assert rpms.version("sb-tool") == "1.2"
    assert rpms.version("sb-epoch") != "0.9"
    assert rpms.owners()[0] > before
    rpms.settle()
    assert rpms.owners() == (before, set())
    rpms.tool(*(("versionlock", "clear") if dnf else ("removelock", "sb-tool")))


def test_what_goes_too(rpms: Rpms) -> None:
    """A removal names what it takes along, whatever the length of its name, and is refused where that is wanted."""
    long = "sb-a-package-with-a-name-that-is-too-long-for-a-column-of-the-table"
    rpms.root.begin(sb_lib="1.0-1", sb_app="1.0-1", **{long: "1.0-1"}, sb_tool="1.2-1")
    plan = rpms.salt.cmd("package_state.plan", [["sb-lib", "removed"], ["sb-tool", "removed"]])
    assert sorted(plan["sb-lib"]["also_removed"]) == [long, "sb-app"]
    assert plan["sb-tool"]["also_removed"] == []
    found = rpms.apply(("sb-lib", "removed"), ("sb-app", "installed"), ("sb-tool", "removed"))
    assert found.failed == ["sb-lib"]
    assert "sb-app" in found.comment("sb-lib")
    assert sorted(rpms.root.installed()) == [long, "sb-app", "sb-lib"]
    found = rpms.apply(("sb-lib", "removed"))
    assert set(found.changed["sb-lib"]) == {"sb-lib", "sb-app", long}
    assert rpms.root.installed() == {}


def test_one_bad_package_among_thirty(rpms: Rpms) -> None:
    """The one whose script fails is named, as the one that no repository has; the others are installed in one call."""
    rpms.root.begin()
    names = [f"sb-n{number}" for number in range(10, 40)]
    found = rpms.apply(*[(name, "installed") for name in names], ("sb-bad", "latest"), ("sb-nosuch", "latest"))
    assert sorted(found.failed) == ["sb-bad", "sb-nosuch"]
    assert sorted(rpms.root.installed()) == names
    again = rpms.run()
    assert (again.changed, sorted(again.failed)) == ({}, ["sb-bad", "sb-nosuch"])


def test_without_versionlock(machine: RpmRoot) -> None:
    """Without its plugin dnf is told in one sentence, and what needs no lock is done."""
    place = "/usr/lib/python3/dist-packages/dnf-plugins/versionlock.py"
    machine.begin()
    machine.run("mv", place, "/srv/")
    try:
        with (
            machine.caller_for("dnf") as salt,
            SaltProcess("patched", COMPILER, {}, TASKS) as compiler,
        ):
            found = Rpms(machine, salt, compiler, "dnf").apply(("sb-tool", "installed"), ("sb-n10", "latest"))
    finally:
        machine.run("mv", "/srv/versionlock.py", place)
    assert found.failed == ["locks"]
    comment = found.comment("locks")
    assert "python3-dnf-plugin-versionlock" in comment
    assert "Traceback" not in comment
    assert sorted(machine.installed()) == ["sb-n10", "sb-tool"]


def test_a_second_state_releases_nothing_of_the_first(rpms: Rpms) -> None:
    """States that are applied by name, one after the other or together, leave each other's locks alone."""
    rpms.root.begin(sb_tool="1.2-1", sb_epoch="0.9-1")

    def state(name: str, package: str) -> str:
        text: Any = rpms.compiler.run("render", [(package, "installed")], "apt", name, name)[1]
        rpms.root.write(f"/srv/salt/susemanager/packages-{name}.sls", text)
        return f"susemanager.packages-{name}"

    for sls in (state("one", "sb-tool"), state("two", "sb-epoch")):
        assert all(one["result"] for one in rpms.salt.cmd("state.apply", sls).values())
    both = rpms.salt.cmd("state.apply", [f"susemanager.packages-{name}" for name in ("one", "two")])
    assert isinstance(both, dict), both
    assert not any(one["changes"] or not one["result"] for one in both.values())
    there, mine = rpms.owners()
    assert there == mine
    assert len(there) == len(("sb-tool", "sb-epoch"))


@pytest.mark.parametrize(
    ("manager", "command", "reason"),
    [
        ("zypper", "printf '#!/bin/sh\\n' > {0}/transactional-update; chmod 755 {0}/*", "transactional system"),
        ("dnf", "cp /usr/bin/dnf {0}/dnf5; ln -s dnf5 {0}/dnf", "dnf is version 5"),
    ],
)
def test_what_can_not_be_managed_is_refused(machine: RpmRoot, manager: str, command: str, reason: str) -> None:
    """Transactional systems and those with dnf 5 are told in one sentence, by each call, and nothing is changed."""
    machine.begin()
    place = "/usr/local/sbin"
    machine.run("sh", "-c", command.format(place))
    try:
        with (
            machine.caller_for(manager) as salt,
            SaltProcess("patched", COMPILER, {}, TASKS) as compiler,
        ):
            rpms = Rpms(machine, salt, compiler, manager)
            found = rpms.apply(("sb-tool", "installed"))
            for function in ("inventory", "plan"):
                with pytest.raises(RuntimeError, match=reason):
                    salt.cmd(f"package_state.{function}", *([[]] if function == "plan" else []))
    finally:
        machine.run("sh", "-c", f"rm {place}/transactional-update {place}/dnf*", check=False)
    assert found.failed == ["locks", "sb-tool"]
    assert reason in found.comment("locks")
    assert "Traceback" not in found.comment("sb-tool")
    assert machine.installed() == {}


ADVISORIES = """<?xml version="1.0" encoding="UTF-8"?>
<updates>
<update from="security@saltbed.example" status="stable" type="security" version="1">
<id>SB-1</id><title>t</title><issued date="2026-11-01 00:00:00"/><severity>Important</severity>
<summary>s</summary><description>sb-n10 &lt; 9.0-1</description><references/>
<pkglist><collection short="sb"><name>sb</name>
<package name="sb-tool" version="1.10" release="1" epoch="0" arch="noarch" src="x"><filename>x</filename></package>
<package name="sb-epoch" version="0.5" release="1" epoch="1" arch="noarch" src="x"><filename>x</filename></package>
<package name="sb-app" version="1.0" release="1" epoch="0" arch="noarch" src="x"><filename>x</filename></package>
</collection></pkglist></update>
<update from="nobody@saltbed.example" status="stable" type="bugfix" version="1">
<id>SB-2</id><title>t</title><issued date="2026-11-01 00:00:00"/><severity>Low</severity>
<summary>s</summary><description>d</description><references/>
<pkglist><collection short="sb"><name>sb</name>
<package name="sb-lib" version="2.0" release="1" epoch="0" arch="noarch" src="x"><filename>x</filename></package>
</collection></pkglist></update>
</updates>
"""


def test_what_the_repositories_have(rpms: Rpms) -> None:
    """A minion tells of each repository by a digest, and what is behind it when it is asked; another one is another."""
    rpms.root.begin(sb_tool="1.2-1")
    first = rpms.salt.cmd("package_state.inventory")["repositories"]
    name = "sb" if rpms.manager == "dnf" else "The packages"
    assert list(first.values()) == [name]
    (offer,) = rpms.salt.cmd("package_state.offers", *first)
    assert (offer["digest"], offer["name"]) == (*first, name)
    assert offer["packages"]["sb-tool"] == ["2.0-1", "2.0~rc1-1", "1.10-1", "1.2-1", "1.0-1"]
    assert offer["packages"]["sb-epoch"] == ["1:0.5-1", "0.9-1"]
    # what is installed and locked is the minion's business
    rpms.settle(("sb-tool", "installed", "=1.0"), ("sb-lib", "removed"))
    assert rpms.salt.cmd("package_state.inventory")["repositories"] == first
    rpms.root.publish("mv /srv/rpms/noarch/sb-tool-2.0-1.noarch.rpm /srv/")
    try:
        second = rpms.salt.cmd("package_state.inventory")["repositories"]
    finally:
        rpms.root.publish("mv /srv/sb-tool-2.0-1.noarch.rpm /srv/rpms/noarch")
    assert list(second.values()) == [name]
    assert second.keys() != first.keys()
    assert rpms.salt.cmd("package_state.offers", *second) == []
    rpms.settle()


def test_a_freeze_does_not_hide_security_updates(rpms: Rpms) -> None:
    """Newer versions of advisories are told, also of what is locked; others are not, nor what is mended."""
    root = rpms.root
    root.begin(sb_tool="1.0-1", sb_epoch="0.9-1", sb_lib="1.0-1", sb_app="1.0-1", sb_n10="1.0-1")
    root.write("/srv/updateinfo.xml", ADVISORIES)
    add = "createrepo_c -q /srv/rpms && modifyrepo_c --mdtype=updateinfo /srv/updateinfo.xml /srv/rpms/repodata"
    refresh = "dnf -q clean expire-cache; zypper -q -n refresh --force; dnf -q makecache"
    root.run("sh", "-c", f"set -e; {add}; {refresh}")
    try:
        rpms.settle(("sb-tool", "installed", "=1.0"), ("sb-epoch", "kept"), ("sb-unwanted", "removed"))
        frozen = rpms.salt.cmd("package_state.inventory")["security"]
        assert frozen == {"sb-tool": ["1.10-1"], "sb-epoch": ["1:0.5-1"]}
        rpms.settle(("sb-tool", "installed", ">=1.10"))
        assert rpms.salt.cmd("package_state.inventory")["security"] == {"sb-epoch": ["1:0.5-1"]}
    finally:
        root.publish("true")
    assert rpms.salt.cmd("package_state.inventory")["security"] == {}
    rpms.settle()
